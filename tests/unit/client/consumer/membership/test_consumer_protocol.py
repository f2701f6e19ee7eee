"""A member of a consumer group step by step: its heartbeats, and the partitions it owns."""

from typing import Any

import pytest

from sawlog.client.consumer.membership.consumer_protocol import ConsumerMembership
from sawlog.client.consumer.membership.membership_protocol import (
    Change,
    GroupSettings,
    Subscription,
    TopicLookup,
    new_member_id,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId, TopicName
from sawlog.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from support.client.group_requests import requested

LOGS = b"logs".ljust(16)
P0, P1, P2 = (partition_of("logs", index) for index in range(3))
INTERVAL_MS = 2_000


class Story:
    def __init__(self, *, pattern: str | None = None, **settings: Any) -> None:
        self.now_ms = 1_000.0
        topics = frozenset[str]() if pattern else frozenset({"logs"})
        self.machine = ConsumerMembership(
            GroupSettings("g", **settings), Subscription(topics, pattern)
        )

    def next_request(self) -> Any:
        return requested(self.machine.next_request(self.now_ms))

    def beat(self, *told: int, epoch: int = 1, is_told: bool = True, code: int = 0) -> Any:
        """Send a heartbeat and respond, with an assignment if partitions are given."""
        asked = self.next_request()
        assert isinstance(asked, ConsumerGroupHeartbeatRequest)
        partitions = [TopicPartitions(topic_id=LOGS, partitions=list(told))] if told else []
        self.machine.on_response(
            ConsumerGroupHeartbeatResponse(
                error_code=code,
                member_id=asked.member_id,
                member_epoch=epoch,
                heartbeat_interval_ms=INTERVAL_MS,
                assignment=Assignment(topic_partitions=partitions) if is_told else None,
            ),
            self.now_ms,
        )
        return asked

    def find(self) -> None:
        assert self.next_request() == TopicLookup(ids=frozenset({LOGS}))
        self.machine.on_topics([Topic(TopicName("logs"), TopicId(LOGS), False, {})], self.now_ms)

    def carry_out(self) -> Change:
        change = self.machine.take_change()
        assert change is not None
        self.machine.change_applied(change)
        return change

    def settle(self) -> None:
        """Join and own the partitions 0 and 1."""
        self.beat(0, 1)
        self.find()
        self.carry_out()
        self.beat(is_told=False)


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: each.partitions for each in request.topic_partitions}


def test_a_member_id_never_starts_with_a_dash() -> None:
    assert not any(new_member_id().startswith("-") for _ in range(1_000))


def test_the_first_heartbeat_is_full_and_later_ones_have_changes_only() -> None:
    story = Story(max_poll_interval_ms=9_000, server_assignor="range", rack="r")
    first = story.beat(0, 1)
    assert first.member_epoch == 0
    assert len(first.member_id) == 22
    assert (first.rebalance_timeout_ms, first.server_assignor, first.rack_id) == (
        9_000,
        "range",
        "r",
    )
    assert first.subscribed_topic_names == ["logs"]
    assert first.subscribed_topic_regex is None
    assert owned(first) == {}
    story.find()
    assert story.carry_out() == Change(assigned=frozenset({P0, P1}))
    second = story.beat(is_told=False)
    assert (second.member_epoch, owned(second)) == (1, {LOGS: [0, 1]})
    assert second.subscribed_topic_names is None
    assert second.rebalance_timeout_ms == -1
    assert story.next_request() is None
    assert story.machine.next_wakeup_ms() == story.now_ms + INTERVAL_MS
    story.now_ms += INTERVAL_MS
    third = story.beat(is_told=False)
    assert owned(third) is None


def pauses(story: Story, count: int) -> list[float]:
    """The pauses before the member's next heartbeats, if nothing changes."""
    waited = []
    for _ in range(count):
        waited.append(story.machine.next_wakeup_ms() - story.now_ms)
        story.now_ms = story.machine.next_wakeup_ms()
        story.beat(is_told=False)
    return waited


def test_a_new_member_without_partitions_sends_its_next_heartbeat_soon() -> None:
    """The coordinator may compute the target later, or wait for revocations of others."""
    story = Story()
    story.beat()
    assert pauses(story, 2) == [100, 200]
    assert story.machine.next_wakeup_ms() == story.now_ms + 400
    story.now_ms += 400
    story.beat(0, epoch=2)
    story.find()
    story.carry_out()
    story.beat(is_told=False, epoch=2)
    assert pauses(story, 1) == [INTERVAL_MS]


def test_a_member_that_stays_without_partitions_returns_to_the_interval() -> None:
    story = Story()
    story.beat()
    assert pauses(story, 7) == [100, 200, 400, 800, 1_600, INTERVAL_MS, INTERVAL_MS]


def test_a_member_that_lost_its_partitions_to_others_keeps_to_the_interval() -> None:
    story = Story()
    story.settle()
    story.now_ms += INTERVAL_MS
    story.beat(epoch=1)
    story.carry_out()
    story.beat(is_told=False, epoch=2)
    assert pauses(story, 2) == [INTERVAL_MS, INTERVAL_MS]


def test_a_revocation_is_reported_as_soon_as_it_is_applied() -> None:
    story = Story()
    story.settle()
    story.now_ms += INTERVAL_MS
    story.beat(0, epoch=1)
    assert story.next_request() is None, "the reader has not let go yet"
    change = story.machine.take_change()
    assert change == Change(revoked=frozenset({P1}))
    assert story.next_request() is None, "nor now"
    story.machine.change_applied(change)
    assert owned(story.beat(0, 2, epoch=2)) == {LOGS: [0]}
    assert story.carry_out() == Change(assigned=frozenset({P2}))
    assert story.machine.identity.epoch == 2


def test_heartbeats_go_on_while_a_change_is_applied() -> None:
    story = Story()
    story.settle()
    story.now_ms += INTERVAL_MS
    story.beat(0)
    change = story.machine.take_change()
    story.now_ms += INTERVAL_MS
    assert owned(story.beat(is_told=False)) is None
    assert change is not None
    story.machine.change_applied(change)
    assert owned(story.beat(is_told=False)) == {LOGS: [0]}


def test_a_lost_response_is_followed_by_a_full_heartbeat() -> None:
    story = Story()
    story.settle()
    story.now_ms += INTERVAL_MS
    assert story.next_request() is not None
    story.machine.on_no_response()
    again = story.beat(is_told=False)
    assert again.subscribed_topic_names == ["logs"]
    assert owned(again) == {LOGS: [0, 1]}
    assert again.member_epoch == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,  # the group had no members left and was removed
    ],
)
def test_a_fenced_member_loses_its_partitions_and_rejoins_with_its_id(code: int) -> None:
    story = Story()
    story.settle()
    before = story.machine.identity.member_id
    story.now_ms += INTERVAL_MS
    story.beat(code=code)
    assert not story.machine.is_member
    assert story.next_request() is None
    assert story.carry_out() == Change(lost=frozenset({P0, P1}))
    again = story.beat(0, epoch=7)
    assert (again.member_id, again.member_epoch, owned(again)) == (before, 0, {})
    assert story.carry_out() == Change(assigned=frozenset({P0}))


def test_a_fenced_member_without_partitions_rejoins_at_once() -> None:
    story = Story()
    story.beat()
    story.now_ms += INTERVAL_MS
    story.beat(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.next_request().member_epoch == 0


def test_a_member_fenced_during_a_change_loses_the_result() -> None:
    story = Story()
    story.beat(0)
    story.find()
    change = story.machine.take_change()
    assert change is not None
    story.now_ms += INTERVAL_MS
    story.beat(code=ErrorCode.FENCED_MEMBER_EPOCH)
    story.machine.change_applied(change)
    assert story.carry_out() == Change(lost=frozenset({P0}))
    assert story.next_request().member_epoch == 0


def test_an_unknown_topic_id_is_looked_up_again() -> None:
    story = Story()
    story.beat(0)
    assert story.next_request() == TopicLookup(ids=frozenset({LOGS}))
    story.machine.on_topics([], story.now_ms)
    assert not story.machine.has_change
    assert story.next_request() is None
    story.now_ms += 1_000
    story.find()
    assert story.carry_out() == Change(assigned=frozenset({P0}))


def test_a_pattern_is_sent_and_removed_with_an_empty_one() -> None:
    story = Story(pattern="log.*")
    first = story.beat()
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "log.*")
    story.machine.subscribe(Subscription(frozenset({"logs"})))
    second = story.beat()
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["logs"], "")


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_static_member_leaves_with_epoch_minus_2(instance: str | None, epoch: int) -> None:
    story = Story(instance_id=instance)
    story.settle()
    assert requested(story.machine.leave_request()).member_epoch == epoch
    assert not story.machine.is_member


def test_a_fatal_error_names_the_group() -> None:
    story = Story()
    with pytest.raises(KafkaError, match=r"group\.consumer\.assignors") as raised:
        story.beat(code=ErrorCode.UNSUPPORTED_ASSIGNOR)
    assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_group_that_cannot_be_joined_is_an_error() -> None:
    story = Story()
    with pytest.raises(KafkaError) as raised:
        story.beat(code=ErrorCode.GROUP_ID_NOT_FOUND)
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
