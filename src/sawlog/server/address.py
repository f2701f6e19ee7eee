"""Listener addresses (`HOST:PORT`, IPv6 in brackets) and their listening sockets."""

import errno
import socket
from typing import NamedTuple

_ALL_IPV6 = "::"
ALL_INTERFACES = ("", "0.0.0.0", _ALL_IPV6)
"""Wildcard hosts: valid to listen on, not to connect to."""

_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PORT_ATTEMPTS = 8


class Address(NamedTuple):
    """A host and a port. An empty host means all interfaces, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`, `:PORT`, `*:PORT` or `[IPV6]:PORT`; ValueError if it is none of them."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: expected an IPv6 address in brackets, for example [::1]:9092")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r}: expected HOST:PORT, with a port from 0 to 65535")
    if any(character in "/@*?" or character.isspace() for character in host.removeprefix("*")):
        raise ValueError(f"{text!r}: {host!r} is not a valid host; expected HOST:PORT")
    return Address("" if host == "*" else host, int(port))


def parse_advertised(text: str) -> Address:
    """Parse an address that clients connect to: it needs a host and a port."""
    address = parse_address(text)
    if address.host in ALL_INTERFACES or address.port == 0:
        raise ValueError(f"{text!r}: expected a host and a port that clients can connect to")
    return address


def listen(address: Address, backlog: int, receive_buffer_bytes: int = -1) -> list[socket.socket]:
    """Return non-blocking listening sockets, one for each address of the name, all on one port.

    `[::]:PORT` is one socket that also accepts IPv4, whatever the kernel's default. OSError if no
    address can be bound. Receive buffers are set here, because a connection inherits its window
    from the listening socket.
    """
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _listen(address, backlog, receive_buffer_bytes)
        except OSError as error:
            # Port 0: the port that is free on one address may be in use on the next.
            is_last = attempt == _PORT_ATTEMPTS - 1
            if address.port != 0 or error.errno != errno.EADDRINUSE or is_last:
                raise
    raise AssertionError


def bound_address(address: Address, sockets: list[socket.socket]) -> Address:
    """Return the address with its actual port, which the system chooses for port 0."""
    return Address(address.host, sockets[0].getsockname()[1])


def _listen(address: Address, backlog: int, receive_buffer_bytes: int) -> list[socket.socket]:
    try:
        found = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as error:  # labels that are too long or empty
        raise OSError(errno.EINVAL, "not a host name") from error
    sockets: list[socket.socket] = []
    port = address.port
    unavailable: OSError | None = None
    takes_ipv4 = all(where[0] == _ALL_IPV6 for *_, where in found)
    try:
        for family, kind, protocol, _, where in dict.fromkeys(found):
            try:
                opened = socket.socket(family, kind, protocol)
                sockets.append(opened)
                _prepare(opened, receive_buffer_bytes, takes_ipv4=takes_ipv4)
                opened.bind((where[0], port, *where[2:]))
            except OSError as error:
                if error.errno not in _UNAVAILABLE:
                    raise
                unavailable = error
                sockets.pop().close()
                continue
            port = opened.getsockname()[1]
            opened.listen(backlog)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    if not sockets:
        raise unavailable or OSError(errno.EADDRNOTAVAIL, f"no address to listen on for {address}")
    return sockets


def _prepare(opened: socket.socket, receive_buffer_bytes: int, *, takes_ipv4: bool) -> None:
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not takes_ipv4))
    if receive_buffer_bytes >= 0:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
