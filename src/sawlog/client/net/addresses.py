"""Broker addresses as users write them: `host:port`, separated by commas."""

import socket
from collections.abc import Sequence
from typing import NamedTuple

DEFAULT_PORT = 9092
_HIGHEST_PORT = 65_535


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(
    text: str | Sequence[str], *, default_port: int = DEFAULT_PORT
) -> list[Address]:
    """Parse one or more addresses; ValueError names the one that is malformed."""
    pieces = text.split(",") if isinstance(text, str) else text
    addresses = [_parse(piece.strip(), default_port) for piece in pieces if piece.strip()]
    if not addresses:
        raise ValueError("no broker is named; write host:port, several separated by commas")
    return addresses


def _parse(text: str, default_port: int) -> Address:
    host, port = text, ""
    if "/" in text or any(character.isspace() for character in text):
        raise ValueError(f"{text!r} is not an address; write host:port, without a scheme or a path")
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            raise ValueError(f"{text!r} is not an address; write [ipv6]:port")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    elif ":" in text and not _is_ipv6(text):
        raise ValueError(f"{text!r} has too many colons; write host:port or [ipv6]:port")
    if not host:
        raise ValueError(f"{text!r} names no host; write host:port")
    if not port:
        return Address(host, default_port)
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT):
        raise ValueError(f"{text!r} has no port from 1 to {_HIGHEST_PORT} after the colon")
    return Address(host, int(port))


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except OSError:
        return False
    return True
