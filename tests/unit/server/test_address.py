"""Listener addresses: parsing and binding."""

import socket

import pytest

from sawlog.server.address import Address, listen, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        (":9092", Address("", 9092)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_is_parsed(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "http://a:1",
        "a b:1",
        "localhost:",
        "localhost:http",
        "a:65536",
        "a:-1",
        "::1:9092",
        "a:٣",
    ],
)
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|brackets"):
        parse_address(text)


def test_a_star_means_all_interfaces() -> None:
    assert parse_address("*:9092") == Address("", 9092)


def test_an_invalid_host_name_is_rejected() -> None:
    with pytest.raises(OSError, match="not a host name"):
        listen(Address("a..b", 0), 1)


def test_all_addresses_of_a_name_are_bound_to_the_same_port() -> None:
    sockets = listen(Address("localhost", 0), 1)
    try:
        assert len({opened.getsockname()[1] for opened in sockets}) == 1
        assert all(not opened.getblocking() for opened in sockets)
    finally:
        for opened in sockets:
            opened.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
def test_ipv6_addresses_are_bound() -> None:
    [opened] = listen(Address("::1", 0), 1)
    with opened, socket.create_connection(opened.getsockname()[:2]):
        pass


def test_a_port_in_use_is_rejected() -> None:
    [first] = listen(Address("127.0.0.1", 0), 1)
    with first, pytest.raises(OSError, match="in use"):
        listen(Address("127.0.0.1", first.getsockname()[1]), 1)
