"""`sawlog zookeeper`: run one ZooKeeper server from the jars on this machine."""

import os
from pathlib import Path

import click

from sawlog.cli.broker import ListenAddress
from sawlog.cli.option_types import DataDirectory
from sawlog.server.address import Address, parse_advertised
from sawlog.server.zookeeper_address import DEFAULT_PORT
from sawlog.server.zookeeper_process import ZooKeeperServer, ZooKeeperUnavailable


@click.command()
@click.option("--data", required=True, type=DataDirectory(), help="Data directory.")
@click.option(
    "--listen",
    type=ListenAddress(parse_advertised),
    metavar="HOST:PORT",
    default=str(Address("127.0.0.1", DEFAULT_PORT)),
    show_default=True,
    help="Address to listen on.",
)
def zookeeper(data: Path, listen: Address) -> None:
    """Run one ZooKeeper server until SIGTERM or Ctrl-C; needs Java.

    The server takes the place of this process, so signals and the exit code are its own.
    """
    server = ZooKeeperServer(data, listen)
    try:
        command = server.command()
    except ZooKeeperUnavailable as error:
        raise click.ClickException(str(error)) from None
    try:
        server.write_config()
    except OSError as error:
        raise click.ClickException(f"cannot write to {data}: {error.strerror}") from None
    click.echo(f"starting ZooKeeper on {listen} (data in {server.data.absolute()})", err=True)
    os.execv(command[0], command)
