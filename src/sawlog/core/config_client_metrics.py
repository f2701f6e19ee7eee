"""The settings of client metrics subscriptions (KIP-714).

Subscriptions are stored and described. They have no effect, as in a Kafka without a receiver of
metrics: no client pushes any, because the telemetry APIs are not served.
"""

from collections.abc import Mapping

from sawlog.core.config_values import parse_value, read_table
from sawlog.core.errors import ErrorCode, KafkaError

CLIENT_METRICS_SETTINGS = read_table("""
interval.ms INT 300000
match LIST ""
metrics LIST ""
""")
_LEAST_MS, _MOST_MS = 100, 3_600_000
_MATCHED = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_client_metrics(name: str, given: Mapping[str, str]) -> None:
    """Raise ConfigError or KafkaError if these cannot be the settings of a subscription."""
    if not name:
        raise _invalid("Subscription name can't be empty")
    for key, text in given.items():
        if key not in CLIENT_METRICS_SETTINGS:
            raise _invalid(f"Unknown client metrics configuration: {key}")
        value = parse_value(CLIENT_METRICS_SETTINGS[key], text)
        if isinstance(value, int) and not _LEAST_MS <= value <= _MOST_MS:
            raise _invalid(
                f"Invalid value {text} for {key}, interval must be between {_LEAST_MS} and"
                f" {_MOST_MS} (1 hour)"
            )
        if key == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    """Check the name before `=`; the regular expression behind it is never used."""
    name, equals, regex = pattern.partition("=")
    if not equals or name.strip() not in _MATCHED or not regex.strip():
        text = f"Illegal client matching pattern: {pattern}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
