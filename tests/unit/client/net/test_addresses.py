"""Broker addresses as users write them."""

import pytest

from sawlog.client.net.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", Address("localhost", 9093)),
        ("localhost", Address("localhost", 9092)),
        ("10.0.0.1:65535", Address("10.0.0.1", 65535)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
        ("::1", Address("::1", 9092)),
    ],
)
def test_an_address_is_a_host_with_an_optional_port(text: str, address: Address) -> None:
    assert parse_addresses(text) == [address]


def test_several_addresses_are_separated_by_commas() -> None:
    assert parse_addresses("a:1, b:2,") == [Address("a", 1), Address("b", 2)]
    assert parse_addresses(["a:1", "b:2"]) == [Address("a", 1), Address("b", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        ":9092",
        "a:0",
        "a:65536",
        "a:b",
        "a:-1",
        "[::1",
        "[a]b",
        "http://a:1",
        "a:b:c",
        "a b:1",
    ],
)
def test_a_malformed_address_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|port"):
        parse_addresses(text)


def test_an_address_prints_as_it_is_written() -> None:
    assert str(Address("a", 1)) == "a:1"
    assert str(Address("::1", 1)) == "[::1]:1"
