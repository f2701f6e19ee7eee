"""The end of a batch: also for a log that was truncated, or has an open transaction."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, FoundOffset
from sawlog.client.consumer.consumer import AtTime
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition
from sawlog.pipeline.landing import topic_check
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds, LandedTable
from sawlog.pipeline.landing.driver import table_setup
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.planning import batch_planner
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner, backlog
from sawlog.pipeline.source.batch_planning import OffsetRange

PARTITION = partition_of("t", 0)


class Log:
    """One partition: its start, its end and its last stable offset."""

    def __init__(self, end: int, stable: int | None = None) -> None:
        self.start = 0
        self.end = end
        self.stable = end if stable is None else stable

    def list_offsets(
        self, _: object, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        end = self.stable if read_committed else self.end
        return {
            partition: FoundOffset(self.start if mark == EARLIEST else end, -1, 0)
            for partition, mark in wanted.items()
        }


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log(400)
    for module in (topic_check, table_setup):
        monkeypatch.setattr(module, "list_offsets", made.list_offsets)
    monkeypatch.setattr(batch_planner, "record_bytes", lambda *_, **__: {})
    return made


def planner() -> BatchPlanner:
    cluster: Any = SimpleNamespace(retry=lambda _: [PARTITION])
    return BatchPlanner(cluster, {"t": NO_TOPIC_ID}, CommitBounds(), read_committed=True)


def planned(start: int) -> int:
    """The end of the next batch."""
    at = {PARTITION: start}
    return planner().bounded(at, planner().check_ends(at))[PARTITION]


def test_a_log_that_ends_before_the_landed_offsets_is_noticed_when_idle(log: Log) -> None:
    with pytest.raises(LandingFailure, match=r"ends at offset 400, .* up to 500") as met:
        planner().check_ends({PARTITION: 500})
    assert met.value.kind is FailureKind.DATA_LOSS


def test_a_log_that_was_cut_after_the_poll_is_noticed_too(log: Log) -> None:
    with pytest.raises(LandingFailure, match=r"ends at offset 400, .* up to 500"):
        planner().bounded({PARTITION: 500}, {PARTITION: 400})
    assert planned(300) == 400


def test_records_lost_to_retention_stop_the_planning(log: Log) -> None:
    log.start = 350
    with pytest.raises(LandingFailure, match=r"it begins at 350, and 300 to 349 are lost") as met:
        planned(300)
    assert met.value.kind is FailureKind.DATA_LOSS


def test_a_log_whose_records_have_all_landed_may_lose_them(log: Log) -> None:
    log.start = 400
    assert planned(400) == 400


def test_an_open_transaction_below_the_landed_offsets_is_no_loss(log: Log) -> None:
    """The table started at the end of the log, or landed uncommitted records."""
    log.end, log.stable = 500, 450
    assert planned(480) == 480
    log.stable = 500
    assert planned(480) == 500


def test_a_partition_of_unknown_record_size_counts_with_the_largest_known() -> None:
    one, other = partition_of("t", 1), partition_of("t", 2)
    starts = {PARTITION: 10, one: 20}
    ends = {PARTITION: 15, one: 30, other: 3}
    assert backlog(starts, ends, {PARTITION: 2.0, one: 10.0}) == (18, 5 * 2 + 10 * 10 + 3 * 10)
    assert backlog(ends, starts, {}) == (0, 0)


@pytest.mark.parametrize("time_ms", [LATEST, 1_700_000_000_000])
def test_a_table_starts_at_the_last_stable_offset(log: Log, time_ms: int) -> None:
    log.stable = 350
    config = LandedTable("t", "/t", "t", "g", start=AtTime(time_ms))
    cluster: Any = None
    assert table_setup.resolve_starts(cluster, config, [PARTITION]) == {PARTITION: 350}


def test_records_of_an_open_transaction_are_held_back(log: Log) -> None:
    log.end, log.stable = 400, 390
    assert planner().held_back({PARTITION: 390}) == [OffsetRange(PARTITION, 390, 400)]
    assert planner().held_back({PARTITION: 395}) == [OffsetRange(PARTITION, 395, 400)], "landed"


def test_records_written_after_the_ends_were_found_are_not_held_back(log: Log) -> None:
    assert planner().held_back({PARTITION: 390}) == []
    assert planner().held_back({PARTITION: 400}) == []
