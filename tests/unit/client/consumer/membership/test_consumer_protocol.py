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


class Scenario:
    def __init__(self, *, pattern: str | None = None, **settings: Any) -> None:
        self.now_ms = 1_000.0
        topics = frozenset[str]() if pattern else frozenset({"logs"})
        self.membership = ConsumerMembership(
            GroupSettings("g", **settings), Subscription(topics, pattern)
        )

    def next_request(self) -> Any:
        return requested(self.membership.next_request(self.now_ms))

    def heartbeat(
        self, *partitions_assigned: int, epoch: int = 1, has_assignment: bool = True, code: int = 0
    ) -> Any:
        """Send a heartbeat and respond, with an assignment if partitions are given."""
        request = self.next_request()
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        partitions = (
            [TopicPartitions(topic_id=LOGS, partitions=list(partitions_assigned))]
            if partitions_assigned
            else []
        )
        self.membership.on_response(
            ConsumerGroupHeartbeatResponse(
                error_code=code,
                member_id=request.member_id,
                member_epoch=epoch,
                heartbeat_interval_ms=INTERVAL_MS,
                assignment=Assignment(topic_partitions=partitions) if has_assignment else None,
            ),
            self.now_ms,
        )
        return request

    def find(self) -> None:
        assert self.next_request() == TopicLookup(ids=frozenset({LOGS}))
        self.membership.on_topics([Topic(TopicName("logs"), TopicId(LOGS), False, {})], self.now_ms)

    def apply_change(self) -> Change:
        change = self.membership.take_change()
        assert change is not None
        self.membership.change_applied(change)
        return change

    def settle(self) -> None:
        """Join and own the partitions 0 and 1."""
        self.heartbeat(0, 1)
        self.find()
        self.apply_change()
        self.heartbeat(has_assignment=False)


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: each.partitions for each in request.topic_partitions}


def test_a_member_id_never_starts_with_a_dash() -> None:
    assert not any(new_member_id().startswith("-") for _ in range(1_000))


def test_the_first_heartbeat_is_full_and_later_ones_have_changes_only() -> None:
    scenario = Scenario(max_poll_interval_ms=9_000, server_assignor="range", rack="r")
    first = scenario.heartbeat(0, 1)
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
    scenario.find()
    assert scenario.apply_change() == Change(assigned=frozenset({P0, P1}))
    second = scenario.heartbeat(has_assignment=False)
    assert (second.member_epoch, owned(second)) == (1, {LOGS: [0, 1]})
    assert second.subscribed_topic_names is None
    assert second.rebalance_timeout_ms == -1
    assert scenario.next_request() is None
    assert scenario.membership.next_wakeup_ms() == scenario.now_ms + INTERVAL_MS
    scenario.now_ms += INTERVAL_MS
    third = scenario.heartbeat(has_assignment=False)
    assert owned(third) is None


def pauses(scenario: Scenario, count: int) -> list[float]:
    """The pauses before the member's next heartbeats, if nothing changes."""
    waited = []
    for _ in range(count):
        waited.append(scenario.membership.next_wakeup_ms() - scenario.now_ms)
        scenario.now_ms = scenario.membership.next_wakeup_ms()
        scenario.heartbeat(has_assignment=False)
    return waited


def test_a_new_member_without_partitions_sends_its_next_heartbeat_soon() -> None:
    """The coordinator may compute the target later, or wait for revocations of others."""
    scenario = Scenario()
    scenario.heartbeat()
    assert pauses(scenario, 2) == [100, 200]
    assert scenario.membership.next_wakeup_ms() == scenario.now_ms + 400
    scenario.now_ms += 400
    scenario.heartbeat(0, epoch=2)
    scenario.find()
    scenario.apply_change()
    scenario.heartbeat(has_assignment=False, epoch=2)
    assert pauses(scenario, 1) == [INTERVAL_MS]


def test_a_member_that_stays_without_partitions_returns_to_the_interval() -> None:
    scenario = Scenario()
    scenario.heartbeat()
    assert pauses(scenario, 7) == [100, 200, 400, 800, 1_600, INTERVAL_MS, INTERVAL_MS]


def test_a_member_that_lost_its_partitions_to_others_keeps_to_the_interval() -> None:
    scenario = Scenario()
    scenario.settle()
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(epoch=1)
    scenario.apply_change()
    scenario.heartbeat(has_assignment=False, epoch=2)
    assert pauses(scenario, 2) == [INTERVAL_MS, INTERVAL_MS]


def test_a_revocation_is_reported_as_soon_as_it_is_applied() -> None:
    scenario = Scenario()
    scenario.settle()
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(0, epoch=1)
    assert scenario.next_request() is None, "the reader has not let go yet"
    change = scenario.membership.take_change()
    assert change == Change(revoked=frozenset({P1}))
    assert scenario.next_request() is None, "nor now"
    scenario.membership.change_applied(change)
    assert owned(scenario.heartbeat(0, 2, epoch=2)) == {LOGS: [0]}
    assert scenario.apply_change() == Change(assigned=frozenset({P2}))
    assert scenario.membership.identity.epoch == 2


def test_heartbeats_go_on_while_a_change_is_applied() -> None:
    scenario = Scenario()
    scenario.settle()
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(0)
    change = scenario.membership.take_change()
    scenario.now_ms += INTERVAL_MS
    assert owned(scenario.heartbeat(has_assignment=False)) is None
    assert change is not None
    scenario.membership.change_applied(change)
    assert owned(scenario.heartbeat(has_assignment=False)) == {LOGS: [0]}


def test_a_lost_response_is_followed_by_a_full_heartbeat() -> None:
    scenario = Scenario()
    scenario.settle()
    scenario.now_ms += INTERVAL_MS
    assert scenario.next_request() is not None
    scenario.membership.on_no_response()
    again = scenario.heartbeat(has_assignment=False)
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
    scenario = Scenario()
    scenario.settle()
    before = scenario.membership.identity.member_id
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(code=code)
    assert not scenario.membership.is_member
    assert scenario.next_request() is None
    assert scenario.apply_change() == Change(lost=frozenset({P0, P1}))
    again = scenario.heartbeat(0, epoch=7)
    assert (again.member_id, again.member_epoch, owned(again)) == (before, 0, {})
    assert scenario.apply_change() == Change(assigned=frozenset({P0}))


def test_a_fenced_member_without_partitions_rejoins_at_once() -> None:
    scenario = Scenario()
    scenario.heartbeat()
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert scenario.next_request().member_epoch == 0


def test_a_member_fenced_during_a_change_loses_the_result() -> None:
    scenario = Scenario()
    scenario.heartbeat(0)
    scenario.find()
    change = scenario.membership.take_change()
    assert change is not None
    scenario.now_ms += INTERVAL_MS
    scenario.heartbeat(code=ErrorCode.FENCED_MEMBER_EPOCH)
    scenario.membership.change_applied(change)
    assert scenario.apply_change() == Change(lost=frozenset({P0}))
    assert scenario.next_request().member_epoch == 0


def test_an_unknown_topic_id_is_looked_up_again() -> None:
    scenario = Scenario()
    scenario.heartbeat(0)
    assert scenario.next_request() == TopicLookup(ids=frozenset({LOGS}))
    scenario.membership.on_topics([], scenario.now_ms)
    assert not scenario.membership.has_change
    assert scenario.next_request() is None
    scenario.now_ms += 1_000
    scenario.find()
    assert scenario.apply_change() == Change(assigned=frozenset({P0}))


def test_a_pattern_is_sent_and_removed_with_an_empty_one() -> None:
    scenario = Scenario(pattern="log.*")
    first = scenario.heartbeat()
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "log.*")
    scenario.membership.subscribe(Subscription(frozenset({"logs"})))
    second = scenario.heartbeat()
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["logs"], "")


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_static_member_leaves_with_epoch_minus_2(instance: str | None, epoch: int) -> None:
    scenario = Scenario(instance_id=instance)
    scenario.settle()
    assert requested(scenario.membership.leave_request()).member_epoch == epoch
    assert not scenario.membership.is_member


def test_a_fatal_error_names_the_group() -> None:
    scenario = Scenario()
    with pytest.raises(KafkaError, match=r"group\.consumer\.assignors") as raised:
        scenario.heartbeat(code=ErrorCode.UNSUPPORTED_ASSIGNOR)
    assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_group_that_cannot_be_joined_is_an_error() -> None:
    scenario = Scenario()
    with pytest.raises(KafkaError) as raised:
        scenario.heartbeat(code=ErrorCode.GROUP_ID_NOT_FOUND)
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
