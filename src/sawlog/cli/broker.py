"""`sawlog broker`: starts one broker and stays until it is told to stop.

It turns options, a properties file and `--set` into one checked configuration; what cannot be is
refused before anything is touched, with the key, the value and what was expected.
"""

import sys
from pathlib import Path

import click

from sawlog.core.config import BrokerConfig, parse_properties
from sawlog.core.config_values import ConfigError
from sawlog.core.ids import NodeId
from sawlog.server.address import Address, parse_address
from sawlog.server.main import BrokerOptions, run

DEFAULT_LISTEN = Address("127.0.0.1", 9092)
DEFAULT_NODE_ID = 1


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
    listen: str | None,
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
            node_id = int(given.get("node.id") or given.get("broker.id") or DEFAULT_NODE_ID)
        config = BrokerConfig({**given, "node.id": str(node_id)})
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    options = BrokerOptions(
        data=data,
        node_id=NodeId(node_id),
        listen=(
            _address(listen, "--listen")
            if listen is not None
            else _listener(config, "listeners") or DEFAULT_LISTEN
        ),
        advertise=(
            _address(advertise, "--advertise")
            if advertise is not None
            else _listener(config, "advertised.listeners")
        ),
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
    try:
        return parse_address(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {error}") from None


def _listener(config: BrokerConfig, key: str) -> Address | None:
    """The first of Kafka's own listeners, where it was set: PLAINTEXT://host:port."""
    if key not in config.given or not config[key]:
        return None
    protocol, separator, address = config[key][0].partition("://")
    if not separator or protocol.upper() != "PLAINTEXT":
        raise click.UsageError(f"{key}={config.given[key]}: expected PLAINTEXT://HOST:PORT")
    return _address(address, key)
