"""Positions, errors and pauses of the partitions that a consumer reads. No socket."""

from typing import TYPE_CHECKING, Any

import pytest

from sawlog.client.consumer.assigned_partitions import AssignedPartitions
from sawlog.client.consumer.fetcher import FetchLimits
from sawlog.client.consumer.start_positions import AT_EARLIEST, AT_LATEST, AtOffset, OffsetReset
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from support.client.fake_cluster import FakeCluster
from support.client.fetch_responses import fetch_response, requested
from support.protocol.batches import batch

if TYPE_CHECKING:
    from sawlog.client.consumer.fetched_records import ConsumedRecord

LOGS_0, LOGS_1 = partition_of("logs", 0), partition_of("logs", 1)
BACKOFF_MS = 50


def records(offsets: range) -> bytes:
    """One batch with these offsets."""
    return bytes(batch(offsets.start, *(b"%d" % offset for offset in offsets)))


class Harness:
    """The partitions logs-0 and logs-1 on one broker."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = FakeCluster(logs=[1, 1])
        self.cluster.logs = {("logs", 0): (100, 200), ("logs", 1): (0, 50)}
        settings = {"read_committed": False, "offset_reset": OffsetReset.FAIL} | settings
        limits = FetchLimits(500, 1, 1 << 20, 1 << 20)
        self.partitions = AssignedPartitions(
            self.cluster, limits, max_decompressed_bytes=1 << 20, **settings
        )

    def poll(self, limit: int = 1_000) -> list[int]:
        """Poll once and return the offsets of the records taken."""
        taken: list[ConsumedRecord] = []

        def take() -> bool:
            taken.extend(self.partitions.take(limit))
            return bool(taken)

        self.partitions.poll_once(take)
        return [record.offset for record in taken]

    def respond(self, data: dict[int, bytes] | None = None, **fields: Any) -> None:
        self.cluster.node(1).respond(fetch_response(data, **fields))

    @property
    def last_fetch(self) -> dict[tuple[str, int], int]:
        return requested(self.cluster.node(1).requests[-1])


def test_positions_follow_the_records_taken() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100})
    assert harness.poll() == []
    assert harness.last_fetch == {("logs", 0): 100}
    harness.respond({0: records(range(100, 105))})
    assert harness.poll(limit=2) == [100, 101]
    assert harness.partitions.positions == {LOGS_0: 102}
    assert harness.poll() == [102, 103, 104]
    assert harness.last_fetch == {("logs", 0): 105}


def test_only_partitions_without_fetched_records_are_fetched() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100, LOGS_1: 0})
    harness.poll()
    harness.respond({0: records(range(100, 110))})
    assert harness.poll(limit=1) == [100]
    assert harness.last_fetch == {("logs", 1): 0}


def test_a_partition_that_was_served_moves_to_the_end_of_the_next_fetch() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100, LOGS_1: 0})
    harness.poll()
    harness.respond({0: records(range(100, 101))})
    assert harness.poll() == [100]
    assert list(harness.last_fetch) == [("logs", 1), ("logs", 0)]


def test_a_response_to_a_fetch_before_a_seek_is_dropped() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100})
    harness.poll()
    harness.partitions.set_positions({LOGS_0: 150})
    harness.respond({0: records(range(100, 101))})
    assert harness.poll() == []
    assert harness.last_fetch == {("logs", 0): 150}


def test_a_seek_drops_fetched_records() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100})
    harness.poll()
    harness.respond({0: records(range(100, 105))})
    assert harness.poll(limit=1) == [100]
    harness.partitions.set_positions({LOGS_0: 150})
    assert harness.poll() == []
    assert harness.last_fetch == {("logs", 0): 150}


def test_a_removed_partition_is_not_read_any_more() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100, LOGS_1: 0})
    harness.poll()
    harness.respond({0: records(range(100, 101)), 1: records(range(1))})
    harness.partitions.remove([LOGS_0])
    assert harness.poll() == [0]
    assert harness.partitions.positions == {LOGS_1: 1}
    assert harness.last_fetch == {("logs", 1): 1}


def test_an_offset_out_of_range_is_an_error_that_names_the_range() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 7})
    harness.poll()
    harness.respond(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(KafkaError, match="no offset 7: its log starts at 100 and ends before 200"):
        harness.poll()
    assert harness.partitions.positions == {LOGS_0: 7}


@pytest.mark.parametrize(
    ("policy", "expected"), [(OffsetReset.EARLIEST, 100), (OffsetReset.LATEST, 200)]
)
def test_an_offset_out_of_range_is_reset_by_the_policy(policy: OffsetReset, expected: int) -> None:
    harness = Harness(offset_reset=policy)
    harness.partitions.set_positions({LOGS_0: 7})
    harness.poll()
    harness.respond(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert harness.poll() == []
    assert harness.last_fetch == {("logs", 0): expected}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_a_stale_leader_keeps_the_position_and_moves_the_fetch(code: ErrorCode) -> None:
    harness = Harness(offset_reset=OffsetReset.EARLIEST)
    harness.partitions.set_positions({LOGS_0: 120})
    harness.poll()
    harness.cluster.leaders["logs"] = [2, 1]
    harness.respond(error_code=code)
    assert harness.poll() == []
    assert harness.cluster.node(2).requests == []
    harness.cluster.clock.ms += BACKOFF_MS
    harness.poll()
    assert requested(harness.cluster.node(2).requests[0]) == {("logs", 0): 120}


def test_a_fatal_error_waits_until_no_records_are_left_to_hand_out() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100, LOGS_1: 0})
    harness.poll()
    harness.respond({0: records(range(100, 102))})
    assert harness.poll(limit=1) == [100]  # and fetches logs-1
    harness.respond(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert harness.poll(limit=1) == [101]
    with pytest.raises(KafkaError, match="the fetch of logs-1 from offset 0 was refused"):
        harness.poll()


def test_a_paused_partition_keeps_its_fetched_records_until_it_is_resumed() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100})
    harness.poll()
    harness.respond({0: records(range(100, 103))})
    assert harness.poll(limit=1) == [100]
    harness.partitions.pause([LOGS_0])
    fetches = len(harness.cluster.node(1).requests)
    assert harness.poll() == []
    assert len(harness.cluster.node(1).requests) == fetches
    harness.partitions.resume([LOGS_0])
    assert harness.poll() == [101, 102]


def test_a_fetch_in_flight_during_a_pause_is_kept() -> None:
    harness = Harness()
    harness.partitions.set_positions({LOGS_0: 100})
    harness.poll()
    harness.partitions.pause([LOGS_0])
    harness.respond({0: records(range(100, 101))})
    assert harness.poll() == []
    harness.partitions.resume([LOGS_0])
    assert harness.poll() == [100]


@pytest.mark.parametrize(("read_committed", "expected"), [(False, 200), (True, 180)])
def test_the_end_is_the_high_watermark_or_the_last_stable_offset(
    read_committed: bool, expected: int
) -> None:
    harness = Harness(read_committed=read_committed)
    harness.partitions.set_positions({LOGS_0: 100})
    harness.poll()
    harness.respond(high_watermark=200, last_stable_offset=180)
    harness.poll()
    assert harness.partitions.ends == {LOGS_0: expected}


def test_starts_are_resolved_to_offsets() -> None:
    partitions = Harness().partitions
    assert partitions.resolve({LOGS_0: AT_EARLIEST, LOGS_1: AT_LATEST}) == {LOGS_0: 100, LOGS_1: 50}
    assert partitions.resolve({LOGS_0: AtOffset(7)}) == {LOGS_0: 7}
    with pytest.raises(TypeError, match="a start must be AT_EARLIEST"):
        partitions.resolve({LOGS_0: 7})  # type: ignore[dict-item]
