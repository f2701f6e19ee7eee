"""Invalid bytes lead to an error or a closed connection: no crash, no memory growth, no effect on
other connections."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from support.client.load import PRODUCE_VERSION, produce_request
from support.protocol.hostile_frames import any_frame
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer, running_sawlog
from support.tiers import rounds

FETCH_VERSION = 11
GROWTH_BYTES = 48 << 20
OPEN_LOGS = 200  # log files stay open on purpose
BOMB_BYTES = 400 << 20
ZSTD = 4
HEALTHY = "healthy"


class Healthy:
    """A connection with valid requests during an attack; each of them must succeed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._count = 0
        wire.ask(create_topic(HEALTHY), 7)

    def work(self) -> None:
        value = b"%d" % self._count
        answer = self._wire.ask(produce_request(HEALTHY, 0, [value], -1), PRODUCE_VERSION)
        assert answer is not None, "the connection was closed"
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, self._count)
        fetched = self._wire.ask(fetch_request(self._count), FETCH_VERSION)
        assert fetched is not None
        partition = fetched.responses[0].partitions[0]
        assert (partition.error_code, partition.high_watermark) == (0, self._count + 1)
        assert value in bytes(partition.records)
        self._count += 1


@contextlib.contextmanager
def healthy_connection(server: SawlogServer) -> Iterator[Healthy]:
    with Wire(server.host, server.port) as wire:
        healthy = Healthy(wire)
        healthy.work()
        yield healthy
        healthy.work()


def fetch_request(offset: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=10_000)
    return FetchRequest(max_wait_ms=0, topics=[FetchTopic(HEALTHY, partitions=[partition])])


def attack(server: SawlogServer, random: Random, frames: int) -> None:
    """Send hostile frames on one connection, then close it or wait until the broker does."""
    with Wire(server.host, server.port) as wire:
        wire.send_bytes(b"".join(any_frame(random) for _ in range(frames)))
        if random.random() < 0.5:
            return
        wire.finish_sending()
        while wire.receive_frame() is not None:
            pass


@pytest.mark.parametrize("connections", rounds(fast=1_000, long=6_000, soak=100_000))
def test_hostile_frames_do_no_harm(tmp_path: Path, connections: int, random_seed: int) -> None:
    random = Random(random_seed)
    with running_sawlog(tmp_path) as server:
        with healthy_connection(server) as healthy:
            for _ in range(30):  # warm up code, caches and pools
                attack(server, random, 3)
            before_bytes, before_files = server.process.rss_bytes(), server.process.open_files()
            for number in range(connections):
                attack(server, random, random.randrange(1, 8))
                if number % 10 == 0:
                    healthy.work()
            assert server.process.rss_bytes() - before_bytes < GROWTH_BYTES
            assert server.process.open_files() < before_files + OPEN_LOGS
        assert failures_in(server) == []


def failures_in(server: SawlogServer) -> list[str]:
    """Log lines of handlers that failed unexpectedly."""
    marks = ("request failed", "Traceback")
    return [line for line in server.process.output.splitlines() if any(m in line for m in marks)]


def test_connections_stalled_in_a_frame_use_little_memory(
    tmp_path: Path,
) -> None:
    with (
        running_sawlog(tmp_path) as server,
        healthy_connection(server) as healthy,
        contextlib.ExitStack() as stalled,
    ):
        before_bytes = server.process.rss_bytes()
        for _ in range(300):
            wire = stalled.enter_context(Wire(server.host, server.port))
            wire.send_bytes(
                (90 << 20).to_bytes(4) + b"\0\0\0\x09"
            )  # announces 90 MiB that never come
        for _ in range(20):
            healthy.work()
        assert server.process.rss_bytes() - before_bytes < GROWTH_BYTES


def test_a_decompression_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """A topic with another codec decompresses batches; the broker limits the output."""
    bomb = produce_request("recompressed", 0, [bytes(BOMB_BYTES)], -1, codec=ZSTD)
    with running_sawlog(tmp_path) as server, healthy_connection(server):
        before_bytes = server.process.rss_bytes()
        with Wire(server.host, server.port) as wire:
            wire.ask(create_topic("recompressed", {"compression.type": "gzip"}), 7)
            answer = wire.ask(bomb, PRODUCE_VERSION)
        assert answer is None or answer.responses[0].partition_responses[0].error_code != 0
        assert server.process.rss_bytes() - before_bytes < BOMB_BYTES // 2


def create_topic(name: str, configs: dict[str, str] | None = None) -> CreateTopicsRequest:
    entries = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
    return CreateTopicsRequest([CreatableTopic(name, 1, 1, configs=entries)])
