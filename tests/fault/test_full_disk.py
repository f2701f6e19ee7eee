"""A broker on a full disk refuses appends, serves reads, and accepts appends once it has space."""

import contextlib
import subprocess
import time
from pathlib import Path

import pytest

from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from support.client.load import PRODUCE_VERSION, produce_request
from support.client_libraries.confluent_library import Confluent
from support.process import wait_until
from support.protocol.wire import Wire
from support.same import check_same
from support.server.broker_process import SawlogServer

TOPIC_ALREADY_EXISTS = 36
KAFKA_STORAGE_ERROR = 56
SIZE_MB = 24
RECORD_BYTES = 100_000
MAX_RECORDS = (SIZE_MB << 20) // RECORD_BYTES


class Writer:
    """Sends one record at a time; the value of record n starts with n."""

    def __init__(self, server: SawlogServer, topic: str) -> None:
        self._server = server
        self._topic = topic
        self.acknowledged: list[tuple[int, bytes]] = []
        self._number = 0

    def send(self, acks: int) -> int:
        """Send one record and return the error code."""
        value = (b"%d " % self._number).ljust(RECORD_BYTES, b".")
        self._number += 1
        with Wire(self._server.host, self._server.port) as wire:
            answer = wire.ask(produce_request(self._topic, 0, [value], acks), PRODUCE_VERSION)
        assert answer is not None, "the connection was closed"
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            self.acknowledged.append((result.base_offset, value))
        return int(result.error_code)

    def fill(self, acks: int) -> int:
        """Send until the broker refuses a record; return the error code."""
        for _ in range(MAX_RECORDS + 1):
            code = self.send(acks)
            if code:
                return code
        raise AssertionError("the disk took more than its size")

    def check(self, library: Confluent) -> None:
        """Check that every acknowledged record is at its offset."""
        _, high = library.bounds(self._topic)
        values = [row.value for row in library.consume(self._topic, high)]
        check_same([(at, values[at]) for at, _ in self.acknowledged], self.acknowledged)


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_full_disk_refuses_appends_and_recovers(small_disk: Path, acks: int) -> None:
    server = SawlogServer(small_disk)
    try:
        library = Confluent(server.bootstrap)
        library.create_topic("full")
        library.create_topic("ballast")
        ballast = Writer(server, "ballast")
        for _ in range(MAX_RECORDS // 3):
            assert ballast.send(acks) == 0
        writer = Writer(server, "full")
        assert writer.fill(acks) == KAFKA_STORAGE_ERROR
        assert writer.send(acks) == KAFKA_STORAGE_ERROR
        assert writer.acknowledged
        writer.check(library)
        admin = library.admin()
        admin.delete_topics(["ballast"])["ballast"].result(30)
        wait_until(lambda: writer.send(acks) == 0)  # the files are unlinked off the loop
        assert writer.send(acks) == 0
        writer.check(library)
        server.restart()
        assert writer.send(acks) == 0
        writer.check(library)
    finally:
        server.kill()


def test_a_broker_killed_on_a_full_disk_restarts_without_loss(small_disk: Path) -> None:
    server = SawlogServer(small_disk)
    try:
        library = Confluent(server.bootstrap)
        library.create_topic("full")
        writer = Writer(server, "full")
        assert writer.fill(-1) == KAFKA_STORAGE_ERROR
        server.kill()
        server.start()
        writer.check(library)
        more = ["mount", "-o", f"remount,size={SIZE_MB * 2}m", str(small_disk)]
        subprocess.run(more, check=True)
        assert writer.send(-1) == 0
        writer.check(library)
    finally:
        server.kill()


def test_a_topic_created_on_a_full_disk_appears_once_there_is_space(small_disk: Path) -> None:
    """The entry in the store may fit where the partitions do not: then the request times out, and
    the controller retries."""
    server = SawlogServer(small_disk)
    try:
        library = Confluent(server.bootstrap)
        library.create_topic("full")
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"." * 4_096):
                pass
        assert create(server, "late") != 0
        assert library.bounds("full") == (0, 0)
        ballast.unlink()
        assert create(server, "late") in (0, TOPIC_ALREADY_EXISTS)
        writer = Writer(server, "late")
        deadline = time.monotonic() + 30
        while writer.send(-1) != 0:
            assert time.monotonic() < deadline, "the topic was not created within 30 s"
        server.restart()
        writer.check(library)
    finally:
        server.kill()


def create(server: SawlogServer, name: str) -> int:
    request = CreateTopicsRequest([CreatableTopic(name, 50, 1)], timeout_ms=1_000)
    with Wire(server.host, server.port) as wire:
        answer = wire.ask(request, 7)
    assert answer is not None
    return int(answer.topics[0].error_code)
