"""A consumer in the middle of a segment that goes: it gets the bytes that it was promised."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import iterate
from support.client.keyed_load import CLEANER
from support.client_libraries.client_library import Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.compaction import set_config
from support.process import wait_until
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer

TOPIC = "vanishing"
FETCH_VERSION = 12  # the last version that names topics
RECORDS = 160
RECORD_BYTES = 100_000
LIMIT_BYTES = 12 << 20  # more than both socket buffers take
CONFIG = {
    "internal.segment.bytes": str(14 << 20),
    "file.delete.delay.ms": "0",
    "min.cleanable.dirty.ratio": "0.01",
    "retention.ms": "-1",
}
OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
UNKNOWN_TOPIC = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def value_of(number: int) -> bytes:
    return (b"%d " % number).ljust(RECORD_BYTES, b".")


def compact(library: Confluent) -> None:
    set_config(library, TOPIC, "cleanup.policy", "compact")


def expire(library: Confluent) -> None:
    set_config(library, TOPIC, "retention.bytes", "1000")


def delete(library: Confluent) -> None:
    admin = library.admin()
    admin.delete_topics([TOPIC])[TOPIC].result(60)


@pytest.mark.long
@pytest.mark.parametrize(
    ("remove", "expected"),
    [
        pytest.param(compact, 0, id="compaction"),
        pytest.param(expire, OUT_OF_RANGE, id="retention"),
        pytest.param(delete, UNKNOWN_TOPIC, id="deletion"),
    ],
)
def test_a_response_under_way_keeps_its_bytes(
    tmp_path: Path, remove: Callable[[Confluent], None], expected: int
) -> None:
    server = SawlogServer(tmp_path, CLEANER | {"log.retention.check.interval.ms": "100"})
    try:
        library = Confluent(server.bootstrap)
        library.create_topic(TOPIC, config=CONFIG)
        rows = [Row(value_of(number), b"%d" % (number % 7)) for number in range(RECORDS)]
        library.produce(TOPIC, rows)
        segment = server.data / f"{TOPIC}-0" / f"{0:020d}.log"
        inode = segment.stat().st_ino
        with Wire(server.host, server.port, receive_buffer_bytes=4_096) as wire:
            wire.send(fetch(0), FETCH_VERSION)
            assert wire.has_bytes(30), "the response is under way"
            remove(library)
            wait_until(lambda: is_gone(segment, inode), server.process, patience_s=60)
            response = wire.receive(ApiKey.FETCH, FETCH_VERSION)
            assert response is not None
            check_values(response.responses[0].partitions[0].records)
            again = wire.ask(fetch(0), FETCH_VERSION)
            assert again is not None
            assert again.responses[0].partitions[0].error_code == expected
    finally:
        server.kill()


def is_gone(segment: Path, inode: int) -> bool:
    """Whether the file is unlinked: neither in its place nor waiting to be removed."""
    try:
        directory = list(segment.parent.iterdir())
        return inode not in {path.stat().st_ino for path in directory}
    except FileNotFoundError:
        return not segment.parent.exists()


def fetch(offset: int) -> FetchRequest:
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=LIMIT_BYTES)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=LIMIT_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(TOPIC, partitions=[wanted])],
    )


def check_values(data: bytes) -> None:
    found = [
        (record.offset, record.value)
        for position, header in batches_in(data)
        for record in iterate(data[position:], max_decompressed_bytes=1 << 24)
    ]
    assert len(found) > LIMIT_BYTES // RECORD_BYTES - 20
    assert found == [(number, value_of(number)) for number in range(len(found))]
