"""Broker and topic settings: Kafka's names, types, defaults and limits.

A setting has an effect, or is one of Kafka's that is accepted without effect. Unknown names and
invalid values are rejected with Kafka's messages. The tables are in `config_broker.py`,
`config_accepted.py` and `config_topic.py`, the rules for values in `config_values.py`. The command
line reads the files; this module parses their text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sawlog.core.config_accepted import ACCEPTED_SETTINGS
from sawlog.core.config_broker import BROKER_SETTINGS, check_cleaner, check_transactions
from sawlog.core.config_groups import check_broker_limits
from sawlog.core.config_topic import (
    BROKER_SYNONYMS,
    REMOVED_TOPIC_SETTINGS,
    TOPIC_SETTINGS,
    Synonym,
)
from sawlog.core.config_values import ConfigError, Setting, Value, parse_value
from sawlog.core.config_warnings import notices, reject_security_setting, unknown_setting

ALL_BROKER_SETTINGS: Mapping[str, Setting] = BROKER_SETTINGS | ACCEPTED_SETTINGS
INTERNAL_SETTINGS = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
"""Settings that Kafka marks as internal: DescribeConfigs returns them only if they are set."""

ACCEPTED_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.")
"""Prefixes of settings that Kafka does not list by name: of listeners and plug-ins."""


class Settings(Mapping[str, Any]):
    """Parsed values by name: `settings["log.segment.bytes"]` is an int, or None without a value.

    `given` has the texts of the settings that were set; all others have their defaults.
    """

    __slots__ = ("_values", "given")

    def __init__(self, values: dict[str, Value], given: Mapping[str, str]) -> None:
        self._values = values
        self.given = given

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class BrokerConfig(Settings):
    """All settings of a broker. `notices` lists settings that have less effect than expected."""

    __slots__ = ("notices",)

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Raise ConfigError with the key, the value and the expected value."""
        given = dict(given or {})
        ineffective: set[str] = set()
        for name, text in given.items():
            reject_security_setting(name, text, ALL_BROKER_SETTINGS.get(name))
            if name in BROKER_SETTINGS:
                continue
            if name not in ACCEPTED_SETTINGS and not name.startswith(ACCEPTED_PREFIXES):
                raise unknown_setting(name, text, ALL_BROKER_SETTINGS)
            ineffective.add(name)
        values: dict[str, Value] = {
            name: parse_value(setting, given.get(name, setting.default))
            for name, setting in ALL_BROKER_SETTINGS.items()
        }
        check_broker_limits(values)
        check_cleaner(values)
        check_transactions(values)
        super().__init__(values, given)
        self.notices = tuple(notices(values, given, ineffective))

    def started_with(self, effective: Mapping[str, str]) -> "BrokerConfig":
        """Return a copy with the `effective` values that the command line determined.

        For example `log.dirs` comes from `--data`; DescribeConfigs must return the values in force.
        The notices stay the same.
        """
        config = BrokerConfig({**self.given, **effective})
        config.notices = self.notices
        return config


class TopicConfig(Settings):
    """The settings in force for a topic, under topic names: its own, else the broker's."""

    __slots__ = ()

    def __init__(self, broker: BrokerConfig, given: Mapping[str, str]) -> None:
        values: dict[str, Value] = {}
        for name, setting in TOPIC_SETTINGS.items():
            text = given.get(name)
            if text is not None:
                values[name] = parse_value(setting, text)
            else:
                values[name] = _broker_default(broker, setting, BROKER_SYNONYMS.get(name, ()))
        super().__init__(values, given)

    @property
    def segment_bytes(self) -> int:
        """The segment size; tests use `internal.segment.bytes` to go below Kafka's minimum."""
        internal: int | None = self["internal.segment.bytes"]
        size: int = self["segment.bytes"] if internal is None else internal
        return size


def _broker_default(broker: BrokerConfig, setting: Setting, synonyms: tuple[Synonym, ...]) -> Value:
    """Return a topic setting's default: the first synonym that has a value in the broker."""
    for synonym in synonyms:
        value = broker[synonym.name]
        if value is not None:
            if setting.name == "retention.ms" and isinstance(value, int) and value < 0:
                return -1  # as in Kafka, any negative retention of a broker is no limit
            return synonym.in_ms(value) if isinstance(value, int) else value
    return parse_value(setting, setting.default)


def check_topic_configs(broker: BrokerConfig, given: Mapping[str, str]) -> TopicConfig:
    """Return the topic's settings; ConfigError with Kafka's message if they are invalid."""
    for name, value in given.items():
        if name not in TOPIC_SETTINGS:
            removed = "; Kafka removed it in 4.0" if name in REMOVED_TOPIC_SETTINGS else ""
            message = f"Unknown topic config name: {name}{removed}"
            raise ConfigError(name, value, "a known setting", message)
    config = TopicConfig(broker, given)
    if config["remote.storage.enable"]:
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise ConfigError("remote.storage.enable", "true", "false", message)
    least, most = config["min.compaction.lag.ms"], config["max.compaction.lag.ms"]
    if least > most:
        message = (
            "conflict topic config setting min.compaction.lag.ms "
            f"({least}) > max.compaction.lag.ms ({most})"
        )
        raise ConfigError("min.compaction.lag.ms", str(least), f"at most {most}", message)
    return config


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    line: int  # its first line, counted from 1
    key: str
    value: str


def parse_properties(text: str) -> list[Property]:
    """Parse the text of a Java .properties file such as Kafka's `server.properties`.

    Of several pairs with the same key the last one counts.
    """
    found: list[Property] = []
    pending = ""
    begun = 0
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        line = pending + raw.lstrip()
        begun = begun if pending else number
        pending = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        key, value = _split_pair(line)
        found.append(Property(begun, _unescape(key), _unescape(value)))
    return found


def _split_pair(line: str) -> tuple[str, str]:
    """Split at the first unescaped `=`, `:` or blank."""
    match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
    return (match[1], match[2]) if match else (line, "")


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    units = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, text, flags=re.DOTALL)
    # Java's escapes are UTF-16: two of them may be one character.
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
