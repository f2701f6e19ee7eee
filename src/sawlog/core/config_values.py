"""One setting and its value: from text to a typed value, and back as Kafka prints it.

A rule is a short text in the tables: `>=1`, `1..9`, `1..9|-1`, `>=1|<0`, `oneof:a,b`,
`anycase:a,b`, `nonempty`, `throttled`. Error messages are Kafka's own, because clients show them.
"""

import math
import re
from enum import IntEnum
from typing import NamedTuple

# As Java parses them, but for NaN, which passes every check of a range, and hexadecimal digits.
_DOUBLE = re.compile(r"([+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The type numbers of the DescribeConfigs response."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


class ConfigError(ValueError):
    """An invalid setting: its `key`, its `value`, and what was `expected`."""

    def __init__(self, key: str, value: str | None, expected: str, message: str = "") -> None:
        """`message` replaces the usual message, where Kafka has a special one."""
        super().__init__(message or f"Invalid value {value} for configuration {key}: {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class Setting(NamedTuple):
    name: str
    type: ConfigType
    default: str | None
    rule: str  # empty: any value of the type
    doc: str  # empty: accepted without effect


def read_table(text: str) -> dict[str, Setting]:
    """Parse lines of `name TYPE default [rule] [:: description]`; `-` is no default, `""` empty."""
    settings: dict[str, Setting] = {}
    for line in text.strip().splitlines():
        row, _, doc = line.partition(" :: ")
        name, type_name, default, *rule = row.split()
        settings[name] = Setting(
            name,
            ConfigType[type_name],
            None if default == "-" else "" if default == '""' else default,
            rule[0] if rule else "",
            doc.strip(),
        )
    return settings


def parse_value(setting: Setting, text: str | None) -> Value:
    """Parse a setting's text; ConfigError if it is invalid."""
    if text is None:
        return None
    value = _of_type(setting, text)
    if setting.rule:
        _check_rule(setting, value)
    return value


def _of_type(setting: Setting, text: str) -> Value:
    trimmed = text.strip()
    kind = setting.type
    if kind in BITS:
        return _integer(setting, text, trimmed)
    if kind == ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise ConfigError(setting.name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind == ConfigType.DOUBLE:
        match = _DOUBLE.fullmatch(trimmed)
        if match is None:
            raise ConfigError(setting.name, text, "Not a number of type DOUBLE")
        return float(match[1])
    if kind == ConfigType.LIST:
        return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()
    return trimmed


def _integer(setting: Setting, text: str, trimmed: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,19}", trimmed):
        number = int(trimmed)
        limit = 1 << BITS[setting.type]
        if -limit <= number < limit:
            return number
    raise ConfigError(setting.name, text, f"Not a number of type {setting.type.name}")


def _check_rule(setting: Setting, value: Value) -> None:
    kind, _, rest = setting.rule.partition(":")
    if isinstance(value, (int, float)):
        _check_range(setting, value)
    elif kind in ("oneof", "anycase"):
        _check_choice(setting, value, rest.split(","), any_case=kind == "anycase")
    elif kind == "nonempty" and not value:
        raise ConfigError(setting.name, "", "String must be non-empty")
    elif kind == "throttled" and isinstance(value, tuple):
        _check_throttled(setting, value)


def _check_range(setting: Setting, value: float) -> None:
    bounds, _, extra = setting.rule.partition("|")
    if extra.startswith("<") and value < int(extra[1:]):
        return
    if extra.lstrip("-").isdigit() and value == int(extra):
        return
    least, _, most = bounds.removeprefix(">=").partition("..")
    if extra and most and not float(least) <= value <= float(most):
        expected = f"Value must be between {least} and {most} or equal to {extra}"
        raise ConfigError(setting.name, format_value(value), expected)
    if value < float(least):
        raise ConfigError(setting.name, format_value(value), f"Value must be at least {least}")
    if most and value > float(most):
        raise ConfigError(setting.name, format_value(value), f"Value must be no more than {most}")


def _check_choice(setting: Setting, value: Value, choices: list[str], *, any_case: bool) -> None:
    items = value if isinstance(value, tuple) else (str(value),)
    if len(items) > 1 and "" in items:
        message = f"Configuration '{setting.name}' values must not be empty."
        raise ConfigError(setting.name, format_value(value), "no empty values", message)
    for item in items:
        if (item.upper() if any_case else item) not in choices:
            expected = f"String must be one of: {', '.join(choices)}"
            raise ConfigError(setting.name, item, expected)


def _check_throttled(setting: Setting, value: tuple[str, ...]) -> None:
    """Accept `*` or a list of `partition:broker` pairs."""
    if value != ("*",) and not all(
        re.fullmatch(r"[0-9]{1,10}:[0-9]{1,10}", item) for item in value
    ):
        expected = (
            f"{setting.name} must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise ConfigError(setting.name, f"[{', '.join(value)}]", expected)


def format_value(value: Value) -> str:
    """Format a value as Kafka does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(value).replace("e+", "E").replace("e", "E")
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
