"""`sawlog move-to-zookeeper`: move the metadata of a stopped broker to a ZooKeeper ensemble."""

import asyncio
from pathlib import Path

import click

from sawlog.cli.broker import ZooKeeperEnsemble, read_settings
from sawlog.cli.option_types import TEXT, DataDirectory
from sawlog.cli.zookeeper_options import read_zookeeper
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.core.ports import DiskError
from sawlog.server.disk import RealDisk
from sawlog.server.log_format import set_up_logging
from sawlog.server.store_move import CannotMove, StoreMove
from sawlog.server.zookeeper_address import ZooKeeperAddress


@click.command("move-to-zookeeper")
@click.option("--data", required=True, type=DataDirectory(), help="Data directory of the broker.")
@click.option(
    "--zookeeper",
    required=True,
    type=ZooKeeperEnsemble(),
    metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
    help="ZooKeeper ensemble to move to; its tree, or this chroot, must be empty.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings of the broker, for zookeeper.digest.credentials and timeouts.",
)
@click.option(
    "--set",
    "settings",
    type=TEXT,
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting; overrides --config. May be repeated.",
)
def move_to_zookeeper(
    data: Path,
    zookeeper: ZooKeeperAddress,
    config_file: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Move a stopped broker's metadata (topics, settings, ids) to ZooKeeper.

    Records stay where they are. Run the command again if it was interrupted; then start the broker
    with the same --zookeeper.
    """
    given = {key: setting.value for key, setting in read_settings(config_file, settings).items()}
    try:
        options = read_zookeeper(BrokerConfig(given), zookeeper)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    assert options is not None
    if not data.is_dir():
        raise click.ClickException(f"{data} does not exist")
    set_up_logging(as_json=False, level="warning")
    disk = RealDisk(str(data), lambda action: action())
    try:
        move = StoreMove(disk, options)
        asyncio.run(move.run())
    except (CannotMove, DiskError, OSError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        disk.close()
    click.echo(
        f"moved {move.moved} nodes to ZooKeeper at {zookeeper}; start the broker with"
        f" --zookeeper {zookeeper}"
    )
