"""The options `--config` and `--set`: settings with Kafka's names, each with its origin."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from sawlog.cli.option_types import TEXT, parse_settings
from sawlog.core.config import parse_properties
from sawlog.core.config_values import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])


class Setting(NamedTuple):
    value: str
    origin: str  # for error messages: `server.properties line 3` or `--set`


def setting_option(text: str) -> Callable[[Command], Command]:
    """Add the repeatable option `--set`, passed to the command as `settings`."""
    return click.option(
        "--set", "settings", type=TEXT, multiple=True, metavar="KEY=VALUE", help=text
    )


def setting_options(config_text: str) -> Callable[[Command], Command]:
    """Add `--config` and `--set`, passed to the command as `config_file` and `settings`."""
    config_option = click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=config_text,
    )
    set_option = setting_option("A setting; overrides --config. May be repeated.")

    def add(command: Command) -> Command:
        return config_option(set_option(command))

    return add


def read_settings(config_file: Path | None, settings: tuple[str, ...]) -> dict[str, Setting]:
    """Return the settings of a file and of --set, which win."""
    given: dict[str, Setting] = {}
    if config_file is not None:
        for line, key, value in parse_properties(_read_text(config_file)):
            given[key] = Setting(value, f"{config_file} line {line}")
    for key, value in parse_settings("--set", settings, last_wins=True).items():
        given[key] = Setting(value, "--set")
    return given


def values_of(given: Mapping[str, Setting]) -> dict[str, str]:
    return {key: setting.value for key, setting in given.items()}


def usage_error(error: ConfigError, given: Mapping[str, Setting]) -> click.UsageError:
    """The error of an invalid setting, with its origin."""
    setting = given.get(error.key)
    origin = f"{setting.origin}: " if setting is not None else ""
    return click.UsageError(f"{origin}{error}")


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{path} line {line}: not UTF-8 text") from None
