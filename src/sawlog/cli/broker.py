"""`sawlog broker`: starts one broker and stays until it is told to stop.

It turns options, a properties file and `--set` into one checked configuration; what cannot be is
refused before anything is touched, with the key, the value, where it stands and what was expected.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from sawlog.cli.listeners import read_listener
from sawlog.cli.option_types import TEXT, parse_settings
from sawlog.core.config import BrokerConfig, parse_properties
from sawlog.core.config_values import ConfigError
from sawlog.core.ids import NodeId
from sawlog.server.address import Address, parse_address, parse_advertised
from sawlog.server.broker_process import BrokerOptions, run
from sawlog.storage.log_files import META_PROPERTIES, CorruptFile, decode_meta_properties

DEFAULT_LISTEN = Address("127.0.0.1", 9092)
DEFAULT_NODE_ID = 1
_SEVERAL_LISTENERS = ": a broker has one listener; :PORT listens on every interface"


class ListenAddress(click.ParamType[Address]):
    name = "host:port"

    def __init__(self, parse: Callable[[str], Address]) -> None:
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        try:
            return self._parse(TEXT.convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class DataDirectory(click.Path):
    """A directory that is there or can be made; never the current one by an empty variable."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("it is empty; expected a directory", param, ctx)
        return super().convert(value, param, ctx)


class BrokerCommand(click.Command):
    """A command that refuses a repeated option where click would keep the last value only: a
    broker must not listen on, or write to, half of what its operator asked for.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(order).items():
            if count > 1 and isinstance(option, click.Option) and not option.multiple:
                advice = _SEVERAL_LISTENERS if option.name == "listen" else ""
                raise click.UsageError(
                    f"{option.opts[0]} is given {count} times; expected once{advice}", ctx
                )
        return super().parse_args(ctx, args)


@click.command(cls=BrokerCommand)
@click.option("--data", required=True, type=DataDirectory(), help="Data directory.")
@click.option(
    "--listen",
    type=ListenAddress(parse_address),
    metavar="HOST:PORT",
    help="Where to listen; port 0 picks a free one. Else the setting listeners, else"
    f" {DEFAULT_LISTEN}.",
)
@click.option(
    "--advertise",
    type=ListenAddress(parse_advertised),
    metavar="HOST:PORT",
    help="What clients are told to connect to.",
)
@click.option(
    "--node-id",
    type=click.IntRange(0, 2**31 - 1),
    help="This broker's id. Else the setting node.id, else the one that the data directory has,"
    f" else {DEFAULT_NODE_ID}.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings in Kafka's .properties form.",
)
@click.option(
    "--set",
    "settings",
    type=TEXT,
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting; overrides the file. May be repeated.",
)
@click.option(
    "--metrics",
    type=ListenAddress(parse_address),
    metavar="HOST:PORT",
    help="Serve Prometheus metrics here.",
)
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
    help="The least important lines to show.",
)
@click.pass_context
def broker(
    ctx: click.Context,
    data: Path,
    listen: Address | None,
    advertise: Address | None,
    node_id: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metrics: Address | None,
    log_format: str,
    log_level: str,
) -> None:
    """Run one broker on the data directory DATA until SIGTERM or Ctrl-C.

    Settings have Kafka's own names, for example --set log.segment.bytes=104857600.
    """
    given = _given(config_file, settings)
    try:
        config = _config({key: entry.value for key, entry in given.items()}, data, node_id)
        set_listen, notices = read_listener(config, "listeners", parse_address)
        set_advertise, more = read_listener(config, "advertised.listeners", parse_advertised)
    except ConfigError as error:
        entry = given.get(error.key)
        place = f"{entry.place}: " if entry is not None else ""
        raise click.UsageError(f"{place}{error}") from None
    options = BrokerOptions(
        data=data,
        node_id=NodeId(config["node.id"]),
        listen=listen or set_listen or DEFAULT_LISTEN,
        advertise=advertise or set_advertise,
        metrics=metrics,
        config=config,
        notices=tuple(notices + more),
        log_as_json=log_format == "json",
        log_level=log_level,
    )
    ctx.exit(run(options))


class Given(NamedTuple):
    value: str
    place: str


def _given(config_file: Path | None, settings: tuple[str, ...]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    if config_file is not None:
        for line, key, value in parse_properties(_text_of(config_file)):
            given[key] = Given(value, f"{config_file} line {line}")
    for key, value in parse_settings("--set", settings).items():
        given[key] = Given(value, "--set")
    return given


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{path} line {line}: not UTF-8 text") from None


def _config(given: dict[str, str], data: Path, node_id: int | None) -> BrokerConfig:
    """All settings, with the node id that is meant among them."""
    config = BrokerConfig(given)
    if node_id is None:
        node_id = config["node.id"]
    if node_id is None and config["broker.id"] >= 0:
        node_id = config["broker.id"]
    if node_id is None:
        node_id = _node_id_of(data)
    return BrokerConfig({**given, "node.id": str(node_id)})


def _node_id_of(data: Path) -> int:
    """Whose directory it is; where nobody can tell, the broker finds out by itself."""
    try:
        return decode_meta_properties((data / META_PROPERTIES).read_bytes()).node_id
    except (OSError, CorruptFile):
        return DEFAULT_NODE_ID
