"""The members of the benchmark's groups: responses, owned partitions and requests."""

import pytest

from bench import raw
from bench.classic_members import ranges
from bench.consumer_members import Member, check_assignment, member_id
from bench.members import summary
from sawlog.core.errors import ErrorCode
from sawlog.protocol import headers
from sawlog.protocol.codec import decode
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    TopicPartitions as Assigned,
)

TOPIC_ID = bytes(range(16))


def said(frame: bytes) -> ConsumerGroupHeartbeatRequest:
    view = memoryview(frame)[4:]
    _, start = headers.read_request_header(view)
    return decode(ConsumerGroupHeartbeatRequest, 1, view[start:])


def assigned(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
    topics = [Assigned(TOPIC_ID, list(partitions))] if partitions else []
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, assignment=Assignment(topics))


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (2, 4, [range(2), range(2, 4)]),
        (3, 4, [range(2), range(2, 3), range(3, 4)]),
        (3, 2, [range(1), range(1, 2), range(2, 2)]),
    ],
)
def test_ranges_are_consecutive_and_even(
    members: int, partitions: int, expected: list[range]
) -> None:
    assert ranges(members, partitions) == expected


def test_a_member_joins_with_a_subscription_and_nothing_owned() -> None:
    joining = said(Member("g", 0).join("t"))
    assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["t"])
    assert joining.topic_partitions == []


def test_a_member_confirms_a_changed_assignment_once() -> None:
    member = Member("g", 0)
    assert member.on_response(assigned(3, 0, 1))
    news = said(member.heartbeat())
    assert (news.member_epoch, news.topic_partitions) == (3, [TopicPartitions(TOPIC_ID, [0, 1])])
    quiet = said(member.heartbeat())
    assert (quiet.member_epoch, quiet.topic_partitions) == (3, None)


def test_a_member_revokes_partitions_that_are_not_assigned_any_more() -> None:
    member = Member("g", 0)
    member.on_response(assigned(1, 0, 1, 2, 3))
    member.on_response(assigned(1, 2, 3))
    assert (member.partitions, member.owned) == (2, {TOPIC_ID: (2, 3)})
    member.on_response(assigned(2))
    assert said(member.heartbeat()).topic_partitions == []


def test_a_response_without_an_assignment_changes_the_epoch_only() -> None:
    member = Member("g", 0)
    member.on_response(assigned(1, 0))
    member.heartbeat()
    assert not member.on_response(ConsumerGroupHeartbeatResponse(member_epoch=2))
    assert (member.epoch, member.owned) == (2, {TOPIC_ID: (0,)})
    assert said(member.heartbeat()).topic_partitions is None


def test_a_fenced_member_raises_bad_answer() -> None:
    fenced = ConsumerGroupHeartbeatResponse(error_code=int(ErrorCode.FENCED_MEMBER_EPOCH))
    with pytest.raises(raw.BadAnswer, match="FENCED_MEMBER_EPOCH"):
        Member("g", 0).on_response(fenced)


def test_a_member_leaves_with_epoch_minus_one() -> None:
    assert said(Member("g", 0).leave()).member_epoch == -1


def test_member_ids_are_unique() -> None:
    assert len({member_id("rebalance-consumer-200.0.0-members-4", n) for n in range(200)}) == 200


def test_two_owners_of_a_partition_are_found() -> None:
    members = [Member("g", number) for number in range(2)]
    members[0].on_response(assigned(1, 0, 1))
    members[1].on_response(assigned(1, 1, 2))
    with pytest.raises(raw.BadAnswer, match="3 different"):
        check_assignment(members, 4)
    members[1].on_response(assigned(1, 2, 3))
    check_assignment(members, 4)


def test_the_median_of_rebalances_is_in_milliseconds() -> None:
    result = summary([0.001, 0.5, 0.002])
    assert (result["rebalances"], result["median_ms"]) == (3, 2.0)
