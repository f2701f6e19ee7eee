"""`sawlog configs` against a running broker: settings of topics."""

import pytest

from support.cli.command_line import Sawlog, rows
from support.cli.terminal import terminal


def get(sawlog: Sawlog, topic: str, *options: str) -> list[list[str]]:
    return rows(sawlog("configs", "get", "topic", topic, *options))[1:]


def value(sawlog: Sawlog, topic: str, key: str) -> tuple[str, str]:
    ((_, found, source),) = get(sawlog, topic, key)
    return found, source


def test_settings_are_set_shown_and_unset(sawlog: Sawlog, topic: str) -> None:
    table = sawlog("configs", "set", "topic", topic, "retention.ms=3600000", "segment.ms=7200000")
    assert rows(table) == [
        ["setting", "old", "new", "source"],
        ["retention.ms", "604800000", "->", "3600000", "topic"],
        ["segment.ms", "604800000", "->", "7200000", "topic"],
    ]
    assert f"topic {topic}: 2 settings changed" in sawlog.stderr
    shown = get(sawlog, topic)
    assert ["retention.ms", "3600000", "topic"] in shown
    assert ["segment.ms", "7200000", "topic"] in shown
    table = sawlog("configs", "unset", "topic", topic, "retention.ms")
    assert rows(table)[1:] == [["retention.ms", "3600000", "->", "604800000", "default"]]
    assert value(sawlog, topic, "retention.ms") == ("604800000", "default")
    sawlog("configs", "unset", "topic", topic, "--all")
    assert value(sawlog, topic, "segment.ms") == ("604800000", "default")
    assert sawlog("configs", "unset", "topic", topic, "--all") == ""
    assert f"topic {topic}: no settings to unset" in sawlog.stderr


def test_only_settings_other_than_defaults_are_shown(sawlog: Sawlog, topic: str) -> None:
    sawlog("configs", "set", "topic", topic, "max.message.bytes=2000000")
    shown = {row[0]: row[-1] for row in get(sawlog, topic)}
    assert shown["max.message.bytes"] == "topic"
    assert "default" not in shown.values()
    everything = {row[0]: row[-1] for row in get(sawlog, topic, "--all")}
    assert everything["retention.ms"] == "default"
    assert shown.items() <= everything.items()


def test_terminal_shows_times_in_larger_units_and_defaults_dimly(
    sawlog: Sawlog, bootstrap: str, topic: str
) -> None:
    sawlog("configs", "set", "topic", topic, "segment.ms=7200000")
    arguments = ("configs", "get", "topic", topic, "segment.ms", "retention.ms")
    with terminal(*arguments, bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    _, changed, default = screen.shown.decode().splitlines()
    assert changed.split() == ["segment.ms", "7200000", "(2h)", "topic"]
    assert default.startswith("\x1b[2mretention.ms  604800000 (7d)  default")


def test_settings_are_printed_as_json(sawlog: Sawlog, topic: str) -> None:
    changed = sawlog.json("configs", "set", "topic", topic, "max.message.bytes=2000000")
    assert changed == {
        "type": "topic",
        "name": topic,
        "changes": [
            {
                "key": "max.message.bytes",
                "old": "1048588",
                "old_source": "default",
                "new": "2000000",
                "new_source": "topic",
            }
        ],
    }
    assert sawlog.json("configs", "get", "topic", topic, "max.message.bytes") == {
        "type": "topic",
        "name": topic,
        "configs": [
            {
                "key": "max.message.bytes",
                "value": "2000000",
                "source": "topic",
                "default": False,
                "read_only": False,
                "sensitive": False,
                "type": "int",
                "synonyms": [
                    {"key": "max.message.bytes", "value": "2000000", "source": "topic"},
                    {"key": "message.max.bytes", "value": "1048588", "source": "default"},
                ],
            }
        ],
    }


def test_documentation_is_shown_on_request(sawlog: Sawlog, topic: str) -> None:
    head, *text = sawlog("configs", "get", "topic", topic, "retention.ms", "--doc").splitlines()
    assert head == "retention.ms=604800000  default"
    assert "segments" in " ".join(text).lower()
    assert all(line.startswith("  ") and len(line) <= 100 for line in text)
    (entry,) = sawlog.json("configs", "get", "topic", topic, "retention.ms", "--doc")["configs"]
    assert "segments" in entry["documentation"].lower()


def test_lists_are_extended_and_reduced(sawlog: Sawlog, topic: str) -> None:
    compact = "cleanup.policy=compact"
    sawlog("configs", "set", "topic", topic, "--append", compact)
    assert value(sawlog, topic, "cleanup.policy") == ("delete,compact", "topic")
    sawlog("configs", "set", "topic", topic, "--append", compact)
    assert f"topic {topic}: nothing changed" in sawlog.stderr
    sawlog("configs", "set", "topic", topic, "--subtract", "cleanup.policy=delete")
    assert value(sawlog, topic, "cleanup.policy") == ("compact", "topic")


def test_value_in_another_form_is_shown_as_the_broker_has_it(sawlog: Sawlog, topic: str) -> None:
    table = rows(sawlog("configs", "set", "topic", topic, "retention.ms=0100000"))
    assert table[1] == ["retention.ms", "604800000", "->", "100000", "topic"]


def test_validation_changes_nothing(sawlog: Sawlog, topic: str) -> None:
    sawlog("configs", "set", "topic", topic, "retention.ms=1000", "--validate-only")
    assert f"topic {topic}: 1 setting could be changed" in sawlog.stderr
    assert value(sawlog, topic, "retention.ms") == ("604800000", "default")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", "retention.mss"), "there is no topic setting 'retention.mss'; did you mean"),
        (("set", "retention.mss=1"), "there is no topic setting 'retention.mss'; did you mean"),
        (("unset", "retention.mss"), "there is no topic setting 'retention.mss'; did you mean"),
        (("set", "retention.ms=1", "segment.ms=x"), "INVALID_CONFIG"),
        (("set", "retention.ms=1", "segment.ms=0"), "INVALID_CONFIG"),
    ],
)
def test_refused_change_changes_nothing(
    sawlog: Sawlog, topic: str, arguments: tuple[str, ...], words: str
) -> None:
    command, *rest = arguments
    sawlog("configs", command, "topic", topic, *rest, code=1)
    assert words in sawlog.stderr
    assert sawlog.stderr.count("\n") == 1
    assert value(sawlog, topic, "retention.ms") == ("604800000", "default")


def test_unknown_topics_and_brokers_are_refused(sawlog: Sawlog) -> None:
    sawlog("configs", "get", "topic", "nope", code=1)
    assert "there is no topic 'nope'" in sawlog.stderr
    sawlog("configs", "get", "broker", "77", code=1)
    assert "there is no broker '77'; expected a live broker's id (1), or 'all'" in sawlog.stderr


def test_name_that_no_request_can_have_is_an_error_of_one_line(sawlog: Sawlog) -> None:
    sawlog("configs", "get", "topic", "x" * 40_000, code=1)
    expected = "sawlog: a name or a value is too long: a string has 40000 bytes, the limit is 32767"
    assert sawlog.stderr.strip() == expected


def test_settings_of_a_broker_are_shown(sawlog: Sawlog) -> None:
    configs = sawlog.json("configs", "get", "broker", "1")["configs"]
    found = {each["key"]: each for each in configs}
    assert found["node.id"]["value"] == "1"
    assert found["node.id"]["source"] == "broker_file"
    assert "num.partitions" not in found
    shown = rows(sawlog("configs", "get", "broker", "1", "num.partitions"))
    assert shown[1] == ["num.partitions", "1", "default", "read-only"]


def test_read_only_setting_of_a_broker_is_refused(sawlog: Sawlog) -> None:
    sawlog("configs", "set", "broker", "1", "num.partitions=4", code=1)
    assert "'num.partitions' cannot be changed while the broker runs" in sawlog.stderr
