"""Where to listen: `HOST:PORT`, with IPv6 in brackets, and the sockets that stand for it."""

import errno
import socket
from typing import NamedTuple

_EVERY_IPV6 = "::"
EVERY_INTERFACE = ("", "0.0.0.0", _EVERY_IPV6)
"""Hosts that are good to listen on and not to connect to."""

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PORT_ATTEMPTS = 8


class Address(NamedTuple):
    """A host and a port; an empty host is every interface, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `:PORT`, `*:PORT` or `[IPV6]:PORT`; ValueError with what was expected."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:9092")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r}: expected HOST:PORT, with a port from 0 to 65535")
    if any(character in "/@*?" or character.isspace() for character in host.removeprefix("*")):
        raise ValueError(f"{text!r}: {host!r} is no host; expected HOST:PORT")
    return Address("" if host == "*" else host, int(port))


def parse_advertised(text: str) -> Address:
    """An address that clients can connect to: a host by name or number, and a port."""
    address = parse_address(text)
    if address.host in EVERY_INTERFACE or address.port == 0:
        raise ValueError(f"{text!r}: clients need a host and a port that they can connect to")
    return address


def listen(address: Address, backlog: int, receive_buffer_bytes: int = -1) -> list[socket.socket]:
    """Listening sockets, not blocking, one for each address behind the name, all on one port.

    `[::]:PORT` is one socket that IPv4 clients reach as well, whatever the kernel's default is.
    OSError where none can be had. Receive buffers are set here, because a connection inherits
    its window from the listening socket.
    """
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _listen(address, backlog, receive_buffer_bytes)
        except OSError as error:
            # Port 0: what is free on one address may be taken on the next.
            is_last = attempt == _PORT_ATTEMPTS - 1
            if address.port != 0 or error.errno != errno.EADDRINUSE or is_last:
                raise
    raise AssertionError


def bound_address(address: Address, sockets: list[socket.socket]) -> Address:
    """The address that was asked for, with the port that was picked where it was 0."""
    return Address(address.host, sockets[0].getsockname()[1])


def _listen(address: Address, backlog: int, receive_buffer_bytes: int) -> list[socket.socket]:
    try:
        found = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as error:  # no host name has such labels
        raise OSError(errno.EINVAL, "not a host name") from error
    sockets: list[socket.socket] = []
    port = address.port
    refusal: OSError | None = None
    takes_ipv4 = all(where[0] == _EVERY_IPV6 for *_, where in found)
    try:
        for family, kind, protocol, _, where in dict.fromkeys(found):
            try:
                opened = socket.socket(family, kind, protocol)
                sockets.append(opened)
                _prepare(opened, receive_buffer_bytes, takes_ipv4=takes_ipv4)
                opened.bind((where[0], port, *where[2:]))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refusal = error
                sockets.pop().close()
                continue
            port = opened.getsockname()[1]
            opened.listen(backlog)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    if not sockets:
        raise refusal or OSError(errno.EADDRNOTAVAIL, f"nothing to listen on for {address}")
    return sockets


def _prepare(opened: socket.socket, receive_buffer_bytes: int, *, takes_ipv4: bool) -> None:
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not takes_ipv4))
    if receive_buffer_bytes >= 0:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
