"""Which records are held back by open transactions for long enough to be reported."""

import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.planning.held_back_records import (
    CHECK_EVERY_S,
    REPORT_AFTER_S,
    HeldBackRecords,
    count_held_back,
    describe_held_back,
)
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

ONE, OTHER = partition_of("t", 0), partition_of("t", 1)
CHECKS = int(REPORT_AFTER_S / CHECK_EVERY_S)


class Logs:
    """Two partitions: their last stable offsets, their ends, and what was requested."""

    def __init__(self) -> None:
        self.stable: Offsets = {ONE: 5, OTHER: 9}
        self.ends: Offsets = {ONE: 7, OTHER: 9}
        self.now_s = 0.0
        self.requests: list[list[TopicPartition]] = []
        self._held_back = HeldBackRecords()

    def poll(self, after_s: float = CHECK_EVERY_S) -> list[OffsetRange]:
        self.now_s += after_s
        return list(self._held_back.found(self.stable, self.now_s, self._log_ends).values())

    def _log_ends(self, partitions: list[TopicPartition]) -> Offsets:
        self.requests.append(partitions)
        return {partition: self.ends[partition] for partition in partitions}


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_records_are_held_back_if_the_last_stable_offset_does_not_move_for_a_minute(
    logs: Logs,
) -> None:
    assert [logs.poll() for _ in range(1 + CHECKS)] == [[]] * (1 + CHECKS)
    assert logs.poll() == [OffsetRange(ONE, 5, 7)]
    logs.ends[ONE] = 8
    assert logs.poll() == [OffsetRange(ONE, 5, 8)]


def test_records_are_no_longer_held_back_once_the_last_stable_offset_moves(logs: Logs) -> None:
    for _ in range(2 + CHECKS):
        logs.poll()
    logs.stable[ONE] = 7
    assert logs.poll(0.2) == []
    assert logs.poll() == []


def test_transactions_one_after_the_other_hold_nothing_back(logs: Logs) -> None:
    for _ in range(3 * CHECKS):
        logs.stable[ONE] += 3
        logs.ends[ONE] += 3
        assert logs.poll() == []


def test_a_transaction_in_a_log_that_was_idle_for_long_is_given_a_minute(logs: Logs) -> None:
    logs.ends[ONE] = 5
    for _ in range(3 * CHECKS):
        logs.poll()
    logs.ends[ONE] = 7
    assert [logs.poll() for _ in range(CHECKS)] == [[]] * CHECKS
    assert logs.poll() == [OffsetRange(ONE, 5, 7)]


def test_log_ends_are_requested_every_ten_seconds_of_partitions_that_do_not_move(
    logs: Logs,
) -> None:
    logs.poll(0.0)
    for _ in range(40):
        logs.poll(0.25)
    assert logs.requests == [[ONE, OTHER]]
    logs.stable[OTHER] = logs.ends[OTHER] = 10
    logs.poll()
    assert logs.requests[1:] == [[ONE]]


def test_only_records_of_the_partitions_of_a_table_count() -> None:
    held = {ONE: OffsetRange(ONE, 5, 7), OTHER: OffsetRange(OTHER, 1, 9)}
    assert count_held_back(held, {ONE: 5, partition_of("u", 0): 3}) == 2


def test_a_description_names_the_first_partitions() -> None:
    held = [OffsetRange(partition_of("t", index), 5, 6 + index) for index in range(5)]
    see = "; see `sawlog transactions list` and `find-hanging`"
    assert describe_held_back(held[:1]) == (
        f"held back by an open transaction: 1 record of t-0 from offset 5 on{see}"
    )
    assert describe_held_back(held) == (
        "held back by open transactions: 1 record of t-0 from offset 5 on, 2 records of t-1 from"
        f" offset 5 on, 3 records of t-2 from offset 5 on; and 9 of 2 more partitions{see}"
    )
