"""The address of a ZooKeeper ensemble: `HOST:PORT,HOST:PORT/chroot`, as in `zookeeper.connect`."""

from typing import NamedTuple

from sawlog.cluster.store_tree import check_path
from sawlog.core.store import BadArguments
from sawlog.server.address import Address, parse_advertised

DEFAULT_PORT = 2181


class ZooKeeperAddress(NamedTuple):
    """The servers of an ensemble, and the node that is the root of the cluster's tree.

    `chroot` is empty if the tree begins at ZooKeeper's own root.
    """

    servers: tuple[Address, ...]
    chroot: str = ""

    @property
    def hosts(self) -> str:
        return ",".join(map(str, self.servers))

    def __str__(self) -> str:
        return f"{self.hosts}{self.chroot}"


def parse_zookeeper(text: str) -> ZooKeeperAddress:
    """Parse an address; ValueError says what is wrong. The default port is 2181."""
    hosts, slash, rest = text.partition("/")
    chroot = f"/{rest}" if slash and rest else ""
    try:
        check_path(chroot or "/")
    except BadArguments:
        raise ValueError(
            f"{text!r}: {chroot!r} is not a valid chroot; expected HOST:PORT[,HOST:PORT...]/chroot"
        ) from None
    return ZooKeeperAddress(tuple(_server(text, host.strip()) for host in hosts.split(",")), chroot)


def _server(text: str, host: str) -> Address:
    if not host:
        raise ValueError(f"{text!r}: expected HOST:PORT[,HOST:PORT...][/chroot]")
    has_port = host.endswith("]") is False and ":" in host
    return parse_advertised(host if has_port else f"{host}:{DEFAULT_PORT}")
