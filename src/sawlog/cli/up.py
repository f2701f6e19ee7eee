"""`sawlog up`: run a local cluster, ZooKeeper and brokers, under one supervisor."""

import importlib.util
from pathlib import Path

import click

from sawlog.cli.option_types import DataDirectory, parse_settings
from sawlog.cli.setting_options import setting_option, values_of
from sawlog.cli.zookeeper_options import (
    connect_timeout_option,
    connect_timeout_setting,
    zookeeper_option,
)
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.server.local_cluster import (
    ClusterUnavailable,
    LocalClusterOptions,
    existing_brokers,
    run,
)
from sawlog.server.zookeeper_address import DEFAULT_PORT, ZooKeeperAddress
from sawlog.server.zookeeper_process import ZooKeeperUnavailable

DEFAULT_BROKERS = 3
DEFAULT_BROKER_PORT = 9092
MAX_BROKERS = 100


@click.command()
@click.option(
    "--brokers",
    type=click.IntRange(1, MAX_BROKERS),
    help=f"Number of brokers. Default: as many as the directory has, else {DEFAULT_BROKERS}.",
)
@click.option(
    "--data",
    type=DataDirectory(),
    default="sawlog-cluster",
    show_default=True,
    help="Directory of the cluster; a later start finds its data there.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_BROKER_PORT,
    show_default=True,
    help="Port of the first broker; the others have the next ones.",
)
@zookeeper_option(
    "A running ZooKeeper ensemble to use. Default: a server of the cluster's own; needs Java."
)
@connect_timeout_option
@click.option(
    "--zookeeper-port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the cluster's own ZooKeeper.",
)
@setting_option("A setting of all brokers. May be repeated.")
@click.pass_context
def up(
    ctx: click.Context,
    brokers: int | None,
    data: Path,
    port: int,
    zookeeper: ZooKeeperAddress | None,
    connect_timeout_s: float | None,
    zookeeper_port: int,
    settings: tuple[str, ...],
) -> None:
    """Run a local cluster until SIGTERM or Ctrl-C.

    All processes listen on 127.0.0.1. A process that dies is started again.
    """
    found = existing_brokers(data)
    count = brokers or found or DEFAULT_BROKERS
    given = parse_settings("--set", settings, last_wins=True)
    given |= values_of(connect_timeout_setting(connect_timeout_s))
    if port + count - 1 > 65535:
        raise click.UsageError(
            f"--port {port}: {count} brokers need ports up to {port + count - 1}"
        )
    if zookeeper is None and port <= zookeeper_port < port + count:
        raise click.UsageError(f"--zookeeper-port {zookeeper_port} is the port of a broker too")
    try:
        BrokerConfig(given)
    except ConfigError as error:
        raise click.UsageError(f"--set: {error}") from None
    if importlib.util.find_spec("kazoo") is None:
        raise click.ClickException(
            "brokers of a cluster need the package 'kazoo': pip install 'sawlog[zookeeper]'"
        )
    if count < found:
        click.echo(
            f"sawlog: {data} has {found} brokers, of which {count} are started: partitions with"
            " replicas on the others only are offline",
            err=True,
        )
    options = LocalClusterOptions(data, count, port, zookeeper, zookeeper_port, given)
    try:
        ctx.exit(run(options))
    except (ClusterUnavailable, ZooKeeperUnavailable) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot use {data}: {error.strerror}") from None
