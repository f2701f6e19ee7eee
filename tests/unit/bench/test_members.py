"""The members of the benchmark's groups: what they hear, hold and say."""

import pytest

from bench import raw
from bench.classic_members import shares
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
    TopicPartitions as Told,
)

TOPIC_ID = bytes(range(16))


def said(frame: bytes) -> ConsumerGroupHeartbeatRequest:
    view = memoryview(frame)[4:]
    _, start = headers.read_request_header(view)
    return decode(ConsumerGroupHeartbeatRequest, 1, view[start:])


def told(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
    topics = [Told(TOPIC_ID, list(partitions))] if partitions else []
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, assignment=Assignment(topics))


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (2, 4, [range(2), range(2, 4)]),
        (3, 4, [range(2), range(2, 3), range(3, 4)]),
        (3, 2, [range(1), range(1, 2), range(2, 2)]),
    ],
)
def test_shares_are_neighbours_and_even(
    members: int, partitions: int, expected: list[range]
) -> None:
    assert shares(members, partitions) == expected


def test_a_member_joins_with_a_subscription_and_nothing_owned() -> None:
    joining = said(Member("g", 0).join("t"))
    assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["t"])
    assert joining.topic_partitions == []


def test_a_member_says_what_it_owns_once_after_it_changed() -> None:
    member = Member("g", 0)
    assert member.heard(told(3, 0, 1))
    news = said(member.heartbeat())
    assert (news.member_epoch, news.topic_partitions) == (3, [TopicPartitions(TOPIC_ID, [0, 1])])
    quiet = said(member.heartbeat())
    assert (quiet.member_epoch, quiet.topic_partitions) == (3, None)


def test_a_member_gives_up_what_it_is_not_told_any_more() -> None:
    member = Member("g", 0)
    member.heard(told(1, 0, 1, 2, 3))
    member.heard(told(1, 2, 3))
    assert (member.partitions, member.owned) == (2, {TOPIC_ID: (2, 3)})
    member.heard(told(2))
    assert said(member.heartbeat()).topic_partitions == []


def test_an_answer_without_an_assignment_changes_the_epoch_alone() -> None:
    member = Member("g", 0)
    member.heard(told(1, 0))
    member.heartbeat()
    assert not member.heard(ConsumerGroupHeartbeatResponse(member_epoch=2))
    assert (member.epoch, member.owned) == (2, {TOPIC_ID: (0,)})
    assert said(member.heartbeat()).topic_partitions is None


def test_a_member_that_is_put_out_stops_the_driver() -> None:
    fenced = ConsumerGroupHeartbeatResponse(error_code=int(ErrorCode.FENCED_MEMBER_EPOCH))
    with pytest.raises(raw.BadAnswer, match="FENCED_MEMBER_EPOCH"):
        Member("g", 0).heard(fenced)


def test_a_member_leaves_with_its_own_epoch_for_that() -> None:
    assert said(Member("g", 0).leave()).member_epoch == -1


def test_members_have_ids_of_their_own() -> None:
    assert len({member_id("rebalance-consumer-200.0.0-members-4", n) for n in range(200)}) == 200


def test_two_owners_of_a_partition_are_found() -> None:
    members = [Member("g", number) for number in range(2)]
    members[0].heard(told(1, 0, 1))
    members[1].heard(told(1, 1, 2))
    with pytest.raises(raw.BadAnswer, match="3 different"):
        check_assignment(members, 4)
    members[1].heard(told(1, 2, 3))
    check_assignment(members, 4)


def test_the_median_of_rebalances_is_told_in_milliseconds() -> None:
    told_ms = summary([0.001, 0.5, 0.002])
    assert (told_ms["rebalances"], told_ms["median_ms"]) == (3, 2.0)
