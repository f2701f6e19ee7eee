"""The end of a batch: also for a log that was truncated, or has an open transaction."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, FoundOffset
from sawlog.client.consumer.consumer import AtTime
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition
from sawlog.pipeline.formats.parsed import Format
from sawlog.pipeline.landing import topic_check
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds, LandedTable
from sawlog.pipeline.landing.driver import table_setup
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.planning import batch_planner
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner
from sawlog.pipeline.landing.planning.landing_source import LandingReader
from sawlog.pipeline.landing.task.landing_task import LandingParameters
from sawlog.pipeline.source.offset_json import read_stream_offset, write_offsets

PARTITION = partition_of("t", 0)
EVERY_TIME = CommitBounds(every_s=0.0)


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


def planning(bounds: CommitBounds = EVERY_TIME) -> BatchPlanner:
    cluster: Any = SimpleNamespace(retry=lambda _: [PARTITION])
    return BatchPlanner(
        cluster, "t", NO_TOPIC_ID, bounds, read_committed=True, sleep_s=lambda _: None
    )


def once(start: int) -> int:
    """The end of the first batch of a run with `--once`."""
    parameters = LandingParameters(
        "", "t", NO_TOPIC_ID, "g", "", "", Format("raw"), None, (), True, EVERY_TIME
    )
    reader = LandingReader(parameters, {PARTITION: start}, 1)
    reader._planner = planning()
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    told = reader.latestOffset(write_offsets({PARTITION: start}), limit)
    return read_stream_offset(told).offsets[PARTITION]


def test_a_log_that_ends_before_the_landed_offsets_is_noticed_when_idle(log: Log) -> None:
    with pytest.raises(LandingFailure, match=r"ends at offset 400, .* up to 500") as met:
        planning().next_batch({PARTITION: 500})
    assert met.value.kind is FailureKind.DATA_LOSS


def test_a_run_with_once_notices_it_too(log: Log) -> None:
    with pytest.raises(LandingFailure, match=r"ends at offset 400, .* up to 500"):
        once(500)
    assert once(300) == 400


@pytest.mark.parametrize(
    "land", [lambda: planning().next_batch({PARTITION: 300}), lambda: once(300)]
)
def test_records_lost_to_retention_stop_the_planning(log: Log, land: Callable[[], object]) -> None:
    log.start = 350
    with pytest.raises(LandingFailure, match=r"it begins at 350, and 300 to 349 are lost") as met:
        land()
    assert met.value.kind is FailureKind.DATA_LOSS


def test_a_log_whose_records_have_all_landed_may_lose_them(log: Log) -> None:
    log.start = 400
    assert planning().next_batch({PARTITION: 400}) == {PARTITION: 400}
    assert once(400) == 400


def test_an_open_transaction_below_the_landed_offsets_is_no_loss(log: Log) -> None:
    """The table started at the end of the log, or landed uncommitted records."""
    log.end, log.stable = 500, 450
    at = {PARTITION: 480}
    assert planning().next_batch(at) == at
    assert once(480) == 480
    log.stable = 500
    assert planning().next_batch(at) == {PARTITION: 500}


@pytest.mark.parametrize("time_ms", [LATEST, 1_700_000_000_000])
def test_a_table_starts_at_the_last_stable_offset(log: Log, time_ms: int) -> None:
    log.stable = 350
    config = LandedTable("t", "/t", "t", "g", start=AtTime(time_ms))
    cluster: Any = None
    assert table_setup.resolve_starts(cluster, config, [PARTITION]) == {PARTITION: 350}
