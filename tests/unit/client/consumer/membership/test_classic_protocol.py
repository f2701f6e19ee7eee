"""A classic member step by step: its requests, and the partitions it owns."""

from typing import Any

import pytest

from sawlog.client.consumer.membership.classic_protocol import (
    ClassicMembership,
    decode_assignment,
    decode_subscriber,
    encode_assignment,
    encode_subscription,
)
from sawlog.client.consumer.membership.client_assignors import Subscriber
from sawlog.client.consumer.membership.membership_protocol import (
    Change,
    GroupSettings,
    Subscription,
    TopicLookup,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Partition, Topic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.join_group_request import JoinGroupRequest
from sawlog.protocol.messages.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse
from support.client.group_requests import requested

P0, P1, P2 = (partition_of("logs", index) for index in range(3))


def topic(name: str, size: int, *, is_internal: bool = False) -> Topic:
    partitions = {
        PartitionIndex(i): Partition(PartitionIndex(i), NodeId(1), LeaderEpoch(0), (1,), (1,), ())
        for i in range(size)
    }
    return Topic(TopicName(name), TopicId(name.encode().ljust(16)), is_internal, partitions)


class Scenario:
    """A member and the responses of its coordinator, on a fake clock."""

    def __init__(self, *assignors: str, pattern: str | None = None, **settings: Any) -> None:
        self.now_ms = 1_000.0
        self.membership = ClassicMembership(
            GroupSettings("g", assignors=assignors or ("range",), **settings),
            Subscription(frozenset() if pattern else frozenset({"logs"}), pattern),
        )
        self.sizes = {"logs": 3}

    def next_request(self) -> Any:
        return requested(self.membership.next_request(self.now_ms))

    def lookup(self) -> TopicLookup:
        request = self.next_request()
        assert isinstance(request, TopicLookup)
        topics = [topic(name, size) for name, size in self.sizes.items()]
        self.membership.on_topics(topics, self.now_ms)
        return request

    def answer(self, response: Any) -> None:
        self.membership.on_response(response, self.now_ms)

    def join(self, *, generation: int, leads: bool = False, others: Any = ()) -> JoinGroupRequest:
        request = self.next_request()
        assert isinstance(request, JoinGroupRequest)
        metadata = request.protocols[0].metadata
        members = [JoinGroupResponseMember(member_id="me", metadata=metadata), *others]
        self.answer(
            JoinGroupResponse(
                generation_id=generation,
                protocol_name=request.protocols[0].name,
                leader="me" if leads else "other",
                member_id="me",
                members=members if leads else [],
            )
        )
        return request

    def sync(self, *partitions: Any, code: int = 0) -> SyncGroupRequest:
        request = self.next_request()
        assert isinstance(request, SyncGroupRequest)
        self.answer(SyncGroupResponse(error_code=code, assignment=encode_assignment(partitions)))
        return request

    def heartbeat(self, code: int = 0) -> None:
        self.now_ms += self.membership.settings.heartbeat_interval_ms
        assert isinstance(self.next_request(), HeartbeatRequest)
        self.answer(HeartbeatResponse(error_code=code))

    def apply_change(self) -> Change:
        change = self.membership.take_change()
        assert change is not None
        self.membership.change_applied(change)
        return change

    def settle(self, *partitions: Any) -> None:
        self.lookup()
        self.join(generation=1)
        self.sync(*partitions)
        self.apply_change()


def test_a_member_joins_with_the_member_id_of_the_coordinator() -> None:
    scenario = Scenario()
    scenario.lookup()
    assert scenario.next_request().member_id == ""
    scenario.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1"))
    assert scenario.next_request().member_id == "me-1"
    assert scenario.membership.identity.epoch == -1
    assert not scenario.membership.is_member


def test_a_leader_assigns_all_members() -> None:
    scenario = Scenario()
    scenario.lookup()
    other = JoinGroupResponseMember(
        member_id="you", metadata=encode_subscription(Subscriber(frozenset({"logs", "b"})), None)
    )
    scenario.join(generation=4, leads=True, others=[other])
    scenario.sizes["b"] = 2
    assert scenario.lookup().names == {"logs", "b"}
    synced = scenario.sync(P0, P1)
    assert {each.member_id: decode_assignment(each.assignment) for each in synced.assignments} == {
        "me": {P0, P1},
        "you": {P2, partition_of("b", 0), partition_of("b", 1)},
    }
    assert scenario.membership.identity[:2] == ("me", 4)
    assert scenario.apply_change() == Change(assigned=frozenset({P0, P1}))
    assert scenario.membership.owned == {P0, P1}


def test_an_eager_member_gives_up_everything_before_it_rejoins() -> None:
    scenario = Scenario()
    scenario.settle(P0, P1)
    scenario.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scenario.next_request() is None, "not before the reader has let go"
    scenario.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)  # heartbeats go on meanwhile
    assert scenario.apply_change() == Change(revoked=frozenset({P0, P1}))
    scenario.join(generation=2)
    scenario.sync(P1)
    assert scenario.apply_change() == Change(assigned=frozenset({P1}))


def test_a_cooperative_member_keeps_reading_and_rejoins_after_a_revocation() -> None:
    scenario = Scenario("cooperative-sticky")
    scenario.settle(P0, P1)
    scenario.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    joined = scenario.join(generation=2)
    subscriber = decode_subscriber(joined.protocols[0].metadata, None)
    assert (subscriber.owned, subscriber.generation) == ({P0, P1}, 1)
    assert scenario.membership.owned == {P0, P1}
    scenario.sync(P0)
    assert scenario.apply_change() == Change(revoked=frozenset({P1}))
    joined = scenario.join(generation=3)
    assert decode_subscriber(joined.protocols[0].metadata, None).owned == {P0}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_does_not_join_while_a_change_is_applied(assignor: str) -> None:
    """The owned partitions in its subscription would be wrong when they are read."""
    scenario = Scenario(assignor)
    scenario.lookup()
    scenario.join(generation=1)
    scenario.sync(P0)
    change = scenario.membership.take_change()
    assert change == Change(assigned=frozenset({P0}))
    scenario.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert scenario.next_request() is None
    scenario.membership.change_applied(change)
    if assignor == "range":
        assert scenario.apply_change() == Change(revoked=frozenset({P0}))
    assert isinstance(scenario.next_request(), JoinGroupRequest)


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")],
)
def test_a_fenced_member_loses_its_partitions(code: int, member_id: str) -> None:
    scenario = Scenario()
    scenario.settle(P0)
    scenario.heartbeat(code)
    assert not scenario.membership.is_member, "a commit may not even be tried"
    assert scenario.next_request() is None
    assert scenario.apply_change() == Change(lost=frozenset({P0}))
    assert scenario.next_request().member_id == member_id


def test_a_member_fenced_during_a_change_loses_the_result() -> None:
    scenario = Scenario("cooperative-sticky")
    scenario.settle(P0)
    scenario.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    scenario.join(generation=2)
    scenario.sync(P0, P1)
    change = scenario.membership.take_change()
    assert change is not None
    scenario.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    scenario.membership.change_applied(change)
    assert scenario.apply_change() == Change(lost=frozenset({P0, P1}))
    assert isinstance(scenario.next_request(), JoinGroupRequest)


def test_a_lost_join_response_is_followed_by_another_join() -> None:
    scenario = Scenario()
    scenario.lookup()
    assert isinstance(scenario.next_request(), JoinGroupRequest)
    scenario.membership.on_no_response()
    scenario.join(generation=1)
    assert isinstance(scenario.next_request(), SyncGroupRequest)
    scenario.membership.on_no_response()
    assert isinstance(scenario.next_request(), JoinGroupRequest)


def test_a_rebalance_during_sync_rejoins() -> None:
    scenario = Scenario()
    scenario.lookup()
    scenario.join(generation=1)
    scenario.sync(code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(scenario.next_request(), JoinGroupRequest)


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    scenario = Scenario(metadata_interval_ms=10_000)
    scenario.lookup()
    scenario.join(generation=1, leads=True)
    scenario.lookup()
    scenario.sync(P0, P1, P2)
    scenario.apply_change()
    scenario.now_ms += 10_000
    scenario.lookup()
    assert isinstance(scenario.next_request(), HeartbeatRequest), "nothing has changed"
    scenario.answer(HeartbeatResponse())
    scenario.sizes["logs"] = 4
    scenario.now_ms += 10_000
    scenario.lookup()
    assert scenario.apply_change() == Change(revoked=frozenset({P0, P1, P2}))
    assert isinstance(scenario.next_request(), JoinGroupRequest)


def test_a_pattern_is_matched_to_whole_names_of_topics_that_are_not_internal() -> None:
    scenario = Scenario(pattern="log.*")
    request = scenario.next_request()
    assert request.all_topics
    topics = [topic("logs", 1), topic("my-logs", 1), topic("log-internal", 1, is_internal=True)]
    scenario.membership.on_topics(topics, scenario.now_ms)
    joined = scenario.join(generation=1)
    assert decode_subscriber(joined.protocols[0].metadata, None).topics == {"logs"}
    scenario.sync()
    scenario.now_ms += scenario.membership.settings.metadata_interval_ms
    assert scenario.next_request().all_topics
    scenario.membership.on_topics([*topics, topic("log-2", 1)], scenario.now_ms)
    subscriber = decode_subscriber(scenario.next_request().protocols[0].metadata, None)
    assert subscriber.topics == {"logs", "log-2"}


def test_a_new_subscription_rejoins() -> None:
    scenario = Scenario()
    scenario.settle(P0)
    scenario.membership.subscribe(Subscription(frozenset({"b"})))
    scenario.lookup()
    scenario.apply_change()
    subscriber = decode_subscriber(scenario.next_request().protocols[0].metadata, None)
    assert subscriber.topics == {"b"}


def test_a_static_member_sends_no_leave_group() -> None:
    scenario = Scenario()
    scenario.settle(P0)
    leaving = requested(scenario.membership.leave_request())
    assert isinstance(leaving, LeaveGroupRequest)
    assert [each.member_id for each in leaving.members] == ["me"]
    static = Scenario(instance_id="i")
    static.settle(P0)
    assert static.membership.leave_request() is None


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED]
)
def test_a_fatal_error_names_the_group(code: ErrorCode) -> None:
    scenario = Scenario()
    scenario.settle(P0)
    with pytest.raises(KafkaError, match="'g' refused this member") as raised:
        scenario.heartbeat(code)
    assert raised.value.code is code


def test_no_request_is_due_between_heartbeats() -> None:
    scenario = Scenario()
    scenario.settle(P0)
    assert scenario.next_request() is None
    assert (
        scenario.membership.next_wakeup_ms()
        == scenario.now_ms + scenario.membership.settings.heartbeat_interval_ms
    )
    scenario.membership.heartbeat_now()
    assert isinstance(scenario.next_request(), HeartbeatRequest)


def test_malformed_bytes_of_other_members_are_an_inconsistent_protocol() -> None:
    with pytest.raises(KafkaError, match="sent a malformed subscription") as refused:
        decode_subscriber(b"\0", None)
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    with pytest.raises(KafkaError, match="sent a malformed assignment"):
        decode_assignment(b"\0\x03\x7f\xff\xff\xff")


def test_a_member_that_the_leader_did_not_know_is_assigned_nothing() -> None:
    assert decode_assignment(b"") == frozenset()


def test_subscriber_round_trips_with_its_owned_partitions() -> None:
    subscriber = Subscriber(frozenset({"logs", "b"}), frozenset({P0, partition_of("b", 1)}), 5)
    assert decode_subscriber(encode_subscription(subscriber, "rack"), None) == subscriber
