"""Broker and topic settings: Kafka's names, types, defaults and limits.

A setting either has a meaning here, or it is one of Kafka's that is accepted without effect; any
other name is refused, and so is a value of the wrong kind. The tables are in `config_broker.py` and
`config_topic.py`; files are read by the command line, only their text comes here.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The numbers are those of the DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(ValueError):
    """A setting that cannot be: `key`, `value` and what was `expected` of it."""

    def __init__(self, key: str, value: str | None, expected: str) -> None:
        super().__init__(
            f"{key}={value}: {expected}" if value is not None else f"{key}: {expected}"
        )
        self.key = key
        self.value = value
        self.expected = expected


class Setting(NamedTuple):
    name: str
    type: ConfigType
    default: str | None
    valid: str  # a rule of `config_rules.py`, empty: anything of the type
    doc: str  # empty: accepted without effect


class Settings(Mapping[str, Any]):
    """Parsed values by name: `settings["log.segment.bytes"]` is an int, None where there is none.

    `given` holds the text of those that were set; all others have their default.
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
    """`broker_config(given)` makes one; `warnings` names what was given and has no effect here."""

    __slots__ = ("warnings",)

    def __init__(
        self, values: dict[str, Value], given: Mapping[str, str], warnings: tuple[str, ...]
    ) -> None:
        super().__init__(values, given)
        self.warnings = warnings


class TopicConfig(Settings):
    """The settings in force for one topic: its own, else the broker's, by the topic's names."""

    __slots__ = ()
