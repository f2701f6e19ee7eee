"""Finds out whether a process has the other end of a loopback connection.

The kernel is asked for one socket by its addresses (sock_diag(7)). A list of all sockets, as in
/proc/net/tcp, costs milliseconds on a machine with a thousand of them: too much for each connection
of clients that reconnect all the time.
"""

import contextlib
import os
import socket
import struct

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # of inet_diag_req_v2: family, protocol, ext, pad, states
_SOCKET = struct.Struct("!HH16s16s12s")  # inet_diag_sockid: ports, addresses, interface, cookie
_ALL_STATES = 0xFFFFFFFF
_ANY_INTERFACE = bytes(4) + b"\xff" * 8
_INODE = struct.Struct("=I")
_INODE_AT = _HEADER.size + 4 + _SOCKET.size + 16
_MAX_BYTES = 8192


def socket_inode(host: str, local_port: int, remote_port: int) -> int | None:
    """The inode of the TCP socket between these ports of `host`, if it still exists."""
    address = socket.inet_aton(host)
    identity = _SOCKET.pack(local_port, remote_port, address, address, _ANY_INTERFACE)
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + identity
    length = _HEADER.size + len(request)
    header = _HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.send(header + request)
        answer = netlink.recv(_MAX_BYTES)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(_INODE.unpack_from(answer, _INODE_AT)[0])


def has_socket(pid: int, inode: int) -> bool:
    """Whether the process has a descriptor of this socket; False for a process that has ended."""
    wanted = f"socket:[{inode}]"
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(f"/proc/{pid}/fd/{name}") == wanted:
                    return True
    return False
