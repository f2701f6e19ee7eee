"""The owner of a connection is found by its ports."""

import os
import socket
import subprocess
import sys

from tools.faults.socket_owner import has_socket, socket_inode

HOST = "127.0.0.1"


def test_the_socket_of_this_process_is_found_by_its_ports() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((HOST, port)) as client:
            inode = socket_inode(HOST, client.getsockname()[1], port)
            assert inode == os.fstat(client.fileno()).st_ino
            assert has_socket(os.getpid(), inode)
            assert not has_socket(os.getppid(), inode)


def test_a_connection_that_does_not_exist_has_no_socket() -> None:
    with socket.create_server((HOST, 0)) as server:
        assert socket_inode(HOST, 1, server.getsockname()[1]) is None


def test_a_process_that_has_ended_has_no_socket() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not has_socket(child.pid, 1)
