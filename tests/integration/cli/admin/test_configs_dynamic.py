"""`sawlog configs` against a running broker: settings of brokers, groups and loggers."""

from collections.abc import Iterator

import pytest

from support.cli.command_line import Sawlog, rows
from support.kafka.shared_brokers import unique

KEY = "log.cleaner.backoff.ms"


@pytest.fixture(autouse=True)
def unset(sawlog: Sawlog) -> Iterator[None]:
    """A test that fails leaves no settings to the next one: they share the broker."""
    yield
    for broker in ("1", "all"):
        sawlog("configs", "unset", "broker", broker, "--all")


def change(sawlog: Sawlog, *arguments: str) -> list[str]:
    """Return the row of the one changed setting, without its name."""
    _, row = rows(sawlog("configs", *arguments))
    return row[1:]


def test_setting_of_one_broker_precedes_that_of_all(sawlog: Sawlog) -> None:
    assert change(sawlog, "set", "broker", "all", f"{KEY}=20000") == [
        *("-", "->", "20000", "all-brokers"),
    ]
    assert [KEY, "20000", "all-brokers"] in rows(sawlog("configs", "get", "broker", "all"))
    assert change(sawlog, "set", "broker", "1", f"{KEY}=30000") == [
        *("20000", "->", "30000", "broker"),
    ]
    assert change(sawlog, "unset", "broker", "1", KEY) == ["30000", "->", "20000", "all-brokers"]
    assert change(sawlog, "unset", "broker", "all", KEY) == ["20000", "->", "-", "-"]
    assert rows(sawlog("configs", "get", "broker", "1", KEY))[1] == [KEY, "15000", "default"]
    assert rows(sawlog("configs", "get", "broker", "all", KEY))[1] == [KEY, "-", "-"]
    assert f"all brokers: {KEY} is not set" in sawlog.stderr


def test_all_settings_of_all_brokers_are_unset_except_the_one_that_always_has_a_value(
    sawlog: Sawlog,
) -> None:
    sawlog("configs", "set", "broker", "all", f"{KEY}=20000")
    sawlog("configs", "unset", "broker", "all", "--all")
    assert "min.insync.replicas stays" in sawlog.stderr
    left = [key for key, *_ in rows(sawlog("configs", "get", "broker", "all"))]
    assert left == ["setting", "min.insync.replicas"]
    sawlog("configs", "unset", "broker", "all", "--all")
    assert "all brokers: no settings to unset" in sawlog.stderr


def test_unknown_setting_of_all_brokers_is_refused(sawlog: Sawlog) -> None:
    for command in (["get", "broker", "all", f"{KEY}x"], ["set", "broker", "all", f"{KEY}x=1"]):
        sawlog("configs", *command, code=1)
        assert f"there is no broker setting '{KEY}x'; did you mean {KEY}" in sawlog.stderr


def test_settings_of_a_group(sawlog: Sawlog) -> None:
    group, key = unique("group-"), "consumer.session.timeout.ms"
    before = "6000", "broker-file"  # of QUICK_GROUPS
    assert [key, *before] in rows(sawlog("configs", "get", "group", group))
    assert change(sawlog, "set", "group", group, f"{key}=5500") == ["6000", "->", "5500", "group"]
    assert [key, "5500", "group"] in rows(sawlog("configs", "get", "group", group))
    assert change(sawlog, "unset", "group", group, key) == ["5500", "->", *before]


def test_level_of_a_logger(sawlog: Sawlog) -> None:
    original, *changed = change(sawlog, "set", "broker-logger", "1", "root=FATAL")
    try:
        assert changed == ["->", "FATAL", "broker-logger"]
        loggers = [row[0] for row in rows(sawlog("configs", "get", "broker-logger", "1"))[1:]]
        child = next(name for name in loggers if name != "root")
        assert change(sawlog, "set", "broker-logger", "1", f"{child}=ERROR")[2] == "ERROR"
        assert change(sawlog, "unset", "broker-logger", "1", child) == [
            *("ERROR", "->", "FATAL", "broker-logger"),
        ]
        sawlog("configs", "set", "broker-logger", "1", "roots=WARN", code=1)
        assert "there is no logger 'roots'; did you mean root?" in sawlog.stderr
    finally:
        restored = change(sawlog, "set", "broker-logger", "1", f"root={original}")
    assert restored[2] == original
