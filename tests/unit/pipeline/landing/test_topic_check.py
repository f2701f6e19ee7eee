"""Whether a landing can continue with its topic."""

import pytest

from sawlog.client.arrow.offset_range import OffsetsLost
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.topic_check import check_log, data_loss

PARTITION = partition_of("t", 0)


@pytest.mark.parametrize(("start", "end"), [(500, 700), (0, 500), (0, 700)])
def test_a_log_that_has_the_next_offset_is_fine(start: int, end: int) -> None:
    check_log({PARTITION: 500}, {PARTITION: start}, {PARTITION: end})


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [(600, 700, "500 to 599 are lost"), (0, 400, "ends at offset 400")],
)
def test_a_log_without_the_next_offset_is_data_loss(start: int, end: int, message: str) -> None:
    with pytest.raises(LandingFailure, match=message) as caught:
        check_log({PARTITION: 500}, {PARTITION: start}, {PARTITION: end})
    assert caught.value.kind is FailureKind.DATA_LOSS


def test_offsets_lost_under_a_task_are_reported_as_by_the_planner() -> None:
    failure = data_loss(OffsetsLost(PARTITION, range(500, 700), range(600, 700)))
    assert failure.kind is FailureKind.DATA_LOSS
    assert "500 to 599 are lost" in failure.message


def test_a_log_truncated_under_a_task_is_data_loss() -> None:
    failure = data_loss(OffsetsLost(PARTITION, range(500, 700), range(400)))
    assert failure.kind is FailureKind.DATA_LOSS
