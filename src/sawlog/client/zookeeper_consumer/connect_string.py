"""The address of a ZooKeeper ensemble: `HOST:PORT,HOST:PORT/chroot`, as in `zookeeper.connect`."""

from sawlog.client.net.addresses import parse_addresses
from sawlog.client.zookeeper_consumer.group_nodes import check_name

_DEFAULT_PORT = 2_181


def check_connect_string(text: str) -> str:
    """Return the address with the ports written out; ValueError says what is wrong with it."""
    hosts, slash, rest = text.partition("/")
    if not hosts.strip():
        raise ValueError(f"{text!r} names no server; write HOST:PORT[,HOST:PORT...][/chroot]")
    servers = parse_addresses(hosts, default_port=_DEFAULT_PORT)
    chroot = f"/{rest}" if slash and rest else ""
    for name in chroot.split("/")[1:]:
        check_name("chroot", name)
    return ",".join(map(str, servers)) + chroot
