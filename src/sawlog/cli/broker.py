"""`sawlog broker`: run one broker until SIGTERM or Ctrl-C.

Options, a properties file and `--set` become one checked configuration. An invalid setting is
refused before the data directory is touched, with its key, value, origin and what was expected.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sawlog.cli.listeners import read_listener
from sawlog.cli.option_types import TEXT, DataDirectory
from sawlog.cli.setting_options import (
    Setting,
    read_settings,
    setting_options,
    usage_error,
    values_of,
)
from sawlog.cli.zookeeper_options import (
    connect_timeout_option,
    connect_timeout_setting,
    read_zookeeper,
    zookeeper_option,
)
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.core.config_warnings import single_broker_notices
from sawlog.core.ids import NodeId
from sawlog.server.address import Address, parse_address, parse_advertised
from sawlog.server.broker_process import BrokerOptions, run
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.storage.log_files import META_PROPERTIES, CorruptFile, decode_meta_properties

DEFAULT_LISTEN = Address("127.0.0.1", 9092)
DEFAULT_NODE_ID = 1
_ONE_LISTENER = ": a broker has one listener; :PORT listens on every interface"


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


class BrokerCommand(click.Command):
    """A command that refuses repeated options, of which click would keep only the last.

    A broker must not silently ignore a listener or a data directory that its operator named.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, count in Counter(order).items():
            if count > 1 and isinstance(option, click.Option) and not option.multiple:
                hint = _ONE_LISTENER if option.name == "listen" else ""
                raise click.UsageError(
                    f"{option.opts[0]} is given {count} times; expected once{hint}", ctx
                )
        return super().parse_args(ctx, args)


@click.command(cls=BrokerCommand)
@click.option("--data", required=True, type=DataDirectory(), help="Data directory.")
@click.option(
    "--listen",
    type=ListenAddress(parse_address),
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free port. Default: the setting listeners, else"
    f" {DEFAULT_LISTEN}.",
)
@click.option(
    "--advertise",
    type=ListenAddress(parse_advertised),
    metavar="HOST:PORT",
    help="Address that clients connect to. Default: the setting advertised.listeners, else the"
    " listener.",
)
@click.option(
    "--node-id",
    type=click.IntRange(0, 2**31 - 1),
    help="Broker id. Default: the setting node.id, else the id stored in the data directory, else"
    f" {DEFAULT_NODE_ID}.",
)
@zookeeper_option(
    "ZooKeeper ensemble that has the cluster's metadata. Default: the setting zookeeper.connect,"
    " else a store in the data directory."
)
@connect_timeout_option
@setting_options("Settings, in the format of Kafka's server.properties.")
@click.option(
    "--metrics",
    type=ListenAddress(parse_address),
    metavar="HOST:PORT",
    help="Address to serve Prometheus metrics on.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Lowest level to log.",
)
@click.pass_context
def broker(
    ctx: click.Context,
    data: Path,
    listen: Address | None,
    advertise: Address | None,
    node_id: int | None,
    zookeeper: ZooKeeperAddress | None,
    connect_timeout_s: float | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metrics: Address | None,
    log_format: str,
    log_level: str,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C.

    Settings have Kafka's names, for example --set log.segment.bytes=104857600.
    """
    given = read_settings(config_file, settings)
    if zookeeper is not None:
        given["zookeeper.connect"] = Setting(str(zookeeper), "--zookeeper")
    given |= connect_timeout_setting(connect_timeout_s)
    try:
        config = _config(values_of(given), data, node_id)
        set_listen, notices = read_listener(config, "listeners", parse_address)
        set_advertise, more = read_listener(config, "advertised.listeners", parse_advertised)
        zookeeper_options = read_zookeeper(config, zookeeper)
    except ConfigError as error:
        raise usage_error(error, given) from None
    if zookeeper_options is None:
        if connect_timeout_s is not None:
            raise click.UsageError(
                "--connect-timeout is for ZooKeeper: expected --zookeeper, or the setting"
                " zookeeper.connect"
            )
        more += single_broker_notices(config)
    options = BrokerOptions(
        data=data,
        node_id=NodeId(config["node.id"]),
        listen=listen or set_listen or DEFAULT_LISTEN,
        advertise=advertise or set_advertise,
        metrics=metrics,
        zookeeper=zookeeper_options,
        config=config,
        notices=tuple(notices + more),
        log_as_json=log_format == "json",
        log_level=log_level,
    )
    ctx.exit(run(options))


def _config(given: dict[str, str], data: Path, node_id: int | None) -> BrokerConfig:
    """Return all settings, with `node.id` resolved."""
    config = BrokerConfig(given)
    if node_id is None:
        node_id = config["node.id"]
    if node_id is None and config["broker.id"] >= 0:
        node_id = config["broker.id"]
    if node_id is None:
        node_id = _stored_node_id(data)
    return BrokerConfig({**given, "node.id": str(node_id)})


def _stored_node_id(data: Path) -> int:
    """Return the node id of the data directory. A damaged file is reported by the broker later."""
    try:
        return decode_meta_properties((data / META_PROPERTIES).read_bytes()).node_id
    except (OSError, CorruptFile):
        return DEFAULT_NODE_ID
