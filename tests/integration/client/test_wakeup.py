"""Waiting for sockets in a process with more open files than `select` can handle."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.wakeup import Wakeup, wait_readable
from sawlog.client.producer.producer import Producer

SELECT_COUNTS_TO = 1_024


@pytest.fixture
def many_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * SELECT_COUNTS_TO
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(SELECT_COUNTS_TO)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
def test_the_client_works_with_high_descriptors(quick_groups, three_partitions) -> None:
    topic = three_partitions
    with Cluster(quick_groups) as cluster:
        assert cluster.any_connection().fileno() >= SELECT_COUNTS_TO
        with Producer(cluster) as producer:
            producer.send(topic, b"a")
        with Consumer(cluster) as consumer:
            consumer.assign_topic(topic, AT_EARLIEST)
            assert [record.value for record in consumer.poll(30_000)] == [b"a"]


def test_waiting_ends_with_data_end_of_stream_or_timeout() -> None:
    ours, theirs = socket.socketpair()
    assert not wait_readable([ours.fileno()], 0)
    theirs.send(b"x")
    assert wait_readable([ours.fileno()], 60_000)
    ours.recv(1)
    theirs.close()
    assert wait_readable([ours.fileno()], 60_000)
    ours.close()
    assert wait_readable([ours.fileno()], 60_000)


def test_many_signals_are_one_wakeup_and_a_closed_one_ignores_them() -> None:
    wakeup = Wakeup()
    for _ in range(100_000):  # more than fit into a pipe
        wakeup.signal()
    wakeup.wait(60_000)
    while wakeup.clear():
        pass
    assert not wakeup.clear()
    wakeup.close()
    wakeup.signal()


_SIGNALS_AT_EXIT = """
import atexit

def signal():
    wakeup.signal()
    print("signalled" if wakeup.clear() else "closed")

atexit.register(signal)  # registered first, called last
from sawlog.client.net.wakeup import Wakeup
wakeup = Wakeup()
"""


def test_a_wakeup_stays_open_until_the_process_has_exited() -> None:
    """Daemon threads wait for it while the interpreter shuts down."""
    command = [sys.executable, "-c", _SIGNALS_AT_EXIT]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("signalled\n", "")
