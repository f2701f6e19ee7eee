import socket
import subprocess
import sys
from contextlib import closing

import psutil

from support.kafka.request_gate import GatedRequest
from tools.kafka_node import HOST

CONNECT = """
import socket, sys
local, remote = map(int, sys.argv[1:])
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
connection.bind(("127.0.0.1", local))
connection.connect(("127.0.0.1", remote))
print("connected", flush=True)
sys.stdin.read()
"""


def connected(local_port: int, remote_port: int) -> subprocess.Popen[str]:
    """A process with one connection between these ports, until its stdin is closed."""
    command = [sys.executable, "-c", CONNECT, str(local_port), str(remote_port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "connected\n"
    return process


def test_only_the_connection_to_the_gate_has_a_sender() -> None:
    with (
        closing(socket.create_server((HOST, 0))) as gate,
        closing(socket.create_server((HOST, 0))) as other,
        closing(socket.socket()) as free,
    ):
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind((HOST, 0))
        port = free.getsockname()[1]
        gate_port = gate.getsockname()[1]
        with connected(port, gate_port) as client, connected(port, other.getsockname()[1]) as alike:
            request = GatedRequest(0, b"", port, gate_port)
            try:
                assert request.senders == [psutil.Process(client.pid)]
            finally:
                for process in (client, alike):
                    process.communicate()
