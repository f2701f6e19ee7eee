"""`sawlog move-to-zookeeper`: move the metadata of a stopped broker to a ZooKeeper ensemble."""

import asyncio
from pathlib import Path

import click

from sawlog.cli.option_types import DataDirectory
from sawlog.cli.setting_options import read_settings, setting_options, usage_error, values_of
from sawlog.cli.zookeeper_options import (
    connect_timeout_option,
    connect_timeout_setting,
    read_zookeeper,
    zookeeper_option,
)
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.core.ports import DiskError
from sawlog.server.coordination import NO_ZOOKEEPER, ZooKeeperUnreachable
from sawlog.server.disk import RealDisk
from sawlog.server.log_format import set_up_logging
from sawlog.server.store_move import CannotMove, StoreMove
from sawlog.server.zookeeper_address import ZooKeeperAddress


class NoZooKeeper(click.ClickException):
    exit_code = NO_ZOOKEEPER


@click.command("move-to-zookeeper")
@click.option("--data", required=True, type=DataDirectory(), help="Data directory of the broker.")
@zookeeper_option(
    "ZooKeeper ensemble to move to; its tree, or this chroot, must be empty.", is_required=True
)
@connect_timeout_option
@setting_options("Settings of the broker, for zookeeper.digest.credentials and timeouts.")
def move_to_zookeeper(
    data: Path,
    zookeeper: ZooKeeperAddress,
    connect_timeout_s: float | None,
    config_file: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Move a stopped broker's metadata (topics, settings, ids) to ZooKeeper.

    Records stay where they are. Run the command again if it was interrupted; then start the broker
    with the same --zookeeper.
    """
    given = read_settings(config_file, settings) | connect_timeout_setting(connect_timeout_s)
    try:
        options = read_zookeeper(BrokerConfig(values_of(given)), zookeeper)
    except ConfigError as error:
        raise usage_error(error, given) from None
    assert options is not None
    if not data.is_dir():
        raise click.ClickException(f"{data} does not exist")
    set_up_logging(as_json=False, level="warning")
    disk = RealDisk(str(data), lambda action: action())
    try:
        move = StoreMove(disk, options)
        asyncio.run(move.run())
    except ZooKeeperUnreachable as error:
        raise NoZooKeeper(f"{error}; nothing was moved") from None
    except (CannotMove, DiskError, OSError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        disk.close()
    click.echo(
        f"moved {move.moved} nodes to ZooKeeper at {zookeeper}; start the broker with"
        f" --zookeeper {zookeeper}"
    )
