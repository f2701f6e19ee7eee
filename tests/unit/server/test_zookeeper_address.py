"""Addresses of ZooKeeper ensembles."""

import pytest

from sawlog.server.address import Address
from sawlog.server.zookeeper_address import ZooKeeperAddress, parse_zookeeper

A, B = Address("a", 2181), Address("b", 2182)


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a:2181", (A,), ""),
        ("a", (A,), ""),
        ("a:2181/", (A,), ""),
        ("a:2181,b:2182/kafka", (A, B), "/kafka"),
        ("a, b:2182/x/y", (A, B), "/x/y"),
        ("[::1]:2182/x", (Address("::1", 2182),), "/x"),
        ("[::1]", (Address("::1", 2181),), ""),
    ],
)
def test_an_address_has_servers_and_a_chroot(
    text: str, servers: tuple[Address, ...], chroot: str
) -> None:
    address = parse_zookeeper(text)
    assert address == ZooKeeperAddress(servers, chroot)
    assert parse_zookeeper(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "/x", "a:b", "a:0", "a:1,,b:2", "a:1,", ":2181", "a:1/x/", "a:1//x", "a:1/../x"]
)
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_zookeeper(text)
