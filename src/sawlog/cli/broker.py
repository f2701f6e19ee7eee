"""`sawlog broker`: starts one broker and stays until it is told to stop.

It turns options, a properties file and `--set` into one checked configuration; what cannot be is
refused before anything is touched, with the key, the value and what was expected.
"""

import sys
from pathlib import Path

import click

from sawlog.core.config import BrokerConfig, ConfigError, parse_properties
from sawlog.core.ids import NodeId
from sawlog.server.main import Address, BrokerOptions, run

DEFAULT_PORT = 9092
CANNOT_START = 1


@click.command()
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Data directory.")
@click.option(
    "--listen",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen; port 0 picks a free one.",
)
@click.option("--advertise", metavar="HOST:PORT", help="What clients are told to connect to.")
@click.option("--node-id", type=click.IntRange(0, 2**31 - 1), help="This broker's id.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings in Kafka's .properties form.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting; goes before the file. May be repeated.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics here.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How log lines look (standard error).",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def broker(
    data: Path,
    listen: str,
    advertise: str | None,
    node_id: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metrics: str | None,
    log_format: str,
    log_level: str,
) -> None:
    """Run one broker on the data directory DATA until SIGTERM or Ctrl-C.

    Settings have Kafka's own names, for example --set log.segment.bytes=104857600.
    """
    try:
        given = _given(config_file, settings)
        if node_id is None:
            node_id = int(given.get("node.id") or given.get("broker.id") or 1)
        config = BrokerConfig(given)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    options = BrokerOptions(
        data=data,
        node_id=NodeId(node_id),
        listen=_address(listen, "--listen"),
        advertise=None if advertise is None else _address(advertise, "--advertise"),
        metrics=None if metrics is None else _address(metrics, "--metrics"),
        config=config,
        log_as_json=log_format == "json",
        log_level=log_level,
    )
    sys.exit(run(options))


def _given(config_file: Path | None, settings: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    if config_file is not None:
        given.update(parse_properties(config_file.read_text(encoding="utf-8")))
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--set {setting}: expected KEY=VALUE")
        given[key.strip()] = value.strip()
    return given


def _address(text: str, option: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise click.UsageError(f"{option} {text}: expected HOST:PORT, for example 127.0.0.1:9092")
    return Address(host.strip("[]") or "0.0.0.0", int(port))
