"""`sawlog configs` without a broker: arguments, units, and whether changes are applied."""

import pytest

from sawlog.cli.commands import run
from sawlog.cli.config_changes import expected_value, is_applied
from sawlog.cli.configs import readable
from sawlog.cli.units import show_size
from sawlog.client.admin.configs import Change, ConfigEntry, ConfigSynonym
from sawlog.core.config_api import ConfigSource, Operation
from sawlog.core.config_values import ConfigType

KEY = "retention.ms"


def entry(
    value: str | None,
    source: ConfigSource = ConfigSource.DEFAULT,
    *,
    name: str = KEY,
    kind: ConfigType = ConfigType.LONG,
    synonym: str | None = None,
) -> ConfigEntry:
    synonyms = () if synonym is None else (ConfigSynonym(name, synonym, source),)
    return ConfigEntry(name, value, source, False, False, kind, synonyms, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get", "thing", "x"], "'thing' is not one of topic, broker, group, broker-logger"),
        (["get", "topic"], "Missing argument 'NAME'"),
        (["get", "topic", ""], "the name is empty"),
        (["set", "topic", "orders"], "nothing to set: give KEY=VALUE, --append or --subtract"),
        (["set", "topic", "orders", "retention.ms"], "expected KEY=VALUE"),
        (["set", "topic", "orders", "--append", "x"], "--append x: expected KEY=VALUE"),
        (["set", "topic", "orders", "a=1", "a=2"], "KEY=VALUE a=2: a is given twice"),
        (["set", "topic", "orders", *("--append", "a=1") * 2], "--append a=1: a is given twice"),
        (["unset", "topic", "orders"], "give KEY or --all"),
        (["unset", "topic", "orders", "retention.ms", "--all"], "give KEY or --all, not both"),
    ],
)
def test_wrong_arguments_are_usage_errors(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["configs", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "kind", "text"),
    [
        ("retention.ms", "604800000", ConfigType.LONG, "7d"),
        ("retention.ms", "-1", ConfigType.LONG, None),
        ("retention.ms", "500", ConfigType.LONG, None),
        ("flush.ms", str(2**63 - 1), ConfigType.LONG, None),
        ("segment.bytes", "1073741824", ConfigType.INT, "1.00 GiB"),
        ("retention.bytes", str(2**63 - 1), ConfigType.LONG, None),
        ("flush.messages", "1000000", ConfigType.LONG, None),
        ("some.ms", "1000x", ConfigType.STRING, None),
        ("log.retention.ms", None, ConfigType.LONG, None),
    ],
)
def test_times_and_sizes_are_readable(
    name: str, value: str | None, kind: ConfigType, text: str | None
) -> None:
    assert readable(entry(value, name=name, kind=kind)) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "0.98 KiB"),
        (1_536, "1.50 KiB"),
        (10 * 2**20, "10.0 MiB"),
        (1023 * 2**20, "1.00 GiB"),
        (512 * 2**30, "512 GiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_sizes_have_three_digits(size_bytes: int, text: str) -> None:
    assert show_size(size_bytes) == text


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        (Operation.SET, "x", "x"),
        (Operation.DELETE, None, None),
        (Operation.APPEND, "b,c", "a,b,c"),
        (Operation.SUBTRACT, "a", "b"),
        (Operation.SUBTRACT, "c", "a,b"),
    ],
)
def test_value_after_a_change_is_predicted(
    operation: Operation, value: str | None, expected: str | None
) -> None:
    assert expected_value(Change(KEY, operation, value), entry("a, b")) == expected


TOPIC, DEFAULT = ConfigSource.TOPIC, ConfigSource.DEFAULT


@pytest.mark.parametrize(
    ("operation", "before", "after", "applied"),
    [
        (Operation.SET, entry("9"), entry("9"), False),
        (Operation.SET, entry("9"), entry("5", TOPIC), True),
        (Operation.SET, entry("7", TOPIC), entry("7", TOPIC), False),
        (Operation.SET, entry("5", TOPIC), entry("5", TOPIC), True),
        (Operation.SET, None, entry("5", TOPIC), True),
        (Operation.SET, None, None, False),
        (Operation.SET, entry("9"), entry("9", TOPIC, synonym="5"), False),
        (Operation.SET, entry("9"), entry("5", TOPIC, synonym="5"), True),
        (Operation.DELETE, entry("5", TOPIC), entry("5", TOPIC), False),
        (Operation.DELETE, entry("5", TOPIC), entry("9"), True),
        (Operation.DELETE, entry("5", TOPIC), entry("5", DEFAULT, synonym="9"), False),
        (Operation.DELETE, entry("5", TOPIC), None, True),
        (Operation.DELETE, entry("9"), entry("9"), True),
    ],
)
def test_change_is_applied_when_the_broker_shows_its_source_and_value(
    operation: Operation, before: ConfigEntry | None, after: ConfigEntry | None, applied: bool
) -> None:
    old, new = ({} if found is None else {KEY: found} for found in (before, after))
    change = Change(KEY, operation, "5" if operation is Operation.SET else None)
    assert is_applied([change], old, new, ConfigSource.TOPIC) is applied
