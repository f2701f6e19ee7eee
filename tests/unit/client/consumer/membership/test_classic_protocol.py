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


class Story:
    """A member and the responses of its coordinator, on a fake clock."""

    def __init__(self, *assignors: str, pattern: str | None = None, **settings: Any) -> None:
        self.now_ms = 1_000.0
        self.machine = ClassicMembership(
            GroupSettings("g", assignors=assignors or ("range",), **settings),
            Subscription(frozenset() if pattern else frozenset({"logs"}), pattern),
        )
        self.sizes = {"logs": 3}

    def next_request(self) -> Any:
        return requested(self.machine.next_request(self.now_ms))

    def look(self) -> TopicLookup:
        asked = self.next_request()
        assert isinstance(asked, TopicLookup)
        topics = [topic(name, size) for name, size in self.sizes.items()]
        self.machine.on_topics(topics, self.now_ms)
        return asked

    def answer(self, response: Any) -> None:
        self.machine.on_response(response, self.now_ms)

    def join(self, *, generation: int, leads: bool = False, others: Any = ()) -> JoinGroupRequest:
        asked = self.next_request()
        assert isinstance(asked, JoinGroupRequest)
        metadata = asked.protocols[0].metadata
        members = [JoinGroupResponseMember(member_id="me", metadata=metadata), *others]
        self.answer(
            JoinGroupResponse(
                generation_id=generation,
                protocol_name=asked.protocols[0].name,
                leader="me" if leads else "other",
                member_id="me",
                members=members if leads else [],
            )
        )
        return asked

    def sync(self, *partitions: Any, code: int = 0) -> SyncGroupRequest:
        asked = self.next_request()
        assert isinstance(asked, SyncGroupRequest)
        self.answer(SyncGroupResponse(error_code=code, assignment=encode_assignment(partitions)))
        return asked

    def beat(self, code: int = 0) -> None:
        self.now_ms += self.machine.settings.heartbeat_interval_ms
        assert isinstance(self.next_request(), HeartbeatRequest)
        self.answer(HeartbeatResponse(error_code=code))

    def carry_out(self) -> Change:
        change = self.machine.take_change()
        assert change is not None
        self.machine.change_applied(change)
        return change

    def settle(self, *partitions: Any) -> None:
        self.look()
        self.join(generation=1)
        self.sync(*partitions)
        self.carry_out()


def test_a_member_joins_with_the_member_id_of_the_coordinator() -> None:
    story = Story()
    story.look()
    assert story.next_request().member_id == ""
    story.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1"))
    assert story.next_request().member_id == "me-1"
    assert story.machine.identity.epoch == -1
    assert not story.machine.is_member


def test_a_leader_assigns_all_members() -> None:
    story = Story()
    story.look()
    other = JoinGroupResponseMember(
        member_id="you", metadata=encode_subscription(Subscriber(frozenset({"logs", "b"})), None)
    )
    story.join(generation=4, leads=True, others=[other])
    story.sizes["b"] = 2
    assert story.look().names == {"logs", "b"}
    synced = story.sync(P0, P1)
    assert {each.member_id: decode_assignment(each.assignment) for each in synced.assignments} == {
        "me": {P0, P1},
        "you": {P2, partition_of("b", 0), partition_of("b", 1)},
    }
    assert story.machine.identity[:2] == ("me", 4)
    assert story.carry_out() == Change(assigned=frozenset({P0, P1}))
    assert story.machine.owned == {P0, P1}


def test_an_eager_member_gives_up_everything_before_it_rejoins() -> None:
    story = Story()
    story.settle(P0, P1)
    story.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert story.next_request() is None, "not before the reader has let go"
    story.beat(ErrorCode.REBALANCE_IN_PROGRESS)  # heartbeats go on meanwhile
    assert story.carry_out() == Change(revoked=frozenset({P0, P1}))
    story.join(generation=2)
    story.sync(P1)
    assert story.carry_out() == Change(assigned=frozenset({P1}))


def test_a_cooperative_member_keeps_reading_and_rejoins_after_a_revocation() -> None:
    story = Story("cooperative-sticky")
    story.settle(P0, P1)
    story.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    joined = story.join(generation=2)
    told = decode_subscriber(joined.protocols[0].metadata, None)
    assert (told.owned, told.generation) == ({P0, P1}, 1)
    assert story.machine.owned == {P0, P1}
    story.sync(P0)
    assert story.carry_out() == Change(revoked=frozenset({P1}))
    joined = story.join(generation=3)
    assert decode_subscriber(joined.protocols[0].metadata, None).owned == {P0}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_does_not_join_while_a_change_is_applied(assignor: str) -> None:
    """The owned partitions in its subscription would be wrong when they are read."""
    story = Story(assignor)
    story.look()
    story.join(generation=1)
    story.sync(P0)
    change = story.machine.take_change()
    assert change == Change(assigned=frozenset({P0}))
    story.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert story.next_request() is None
    story.machine.change_applied(change)
    if assignor == "range":
        assert story.carry_out() == Change(revoked=frozenset({P0}))
    assert isinstance(story.next_request(), JoinGroupRequest)


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")],
)
def test_a_fenced_member_loses_its_partitions(code: int, member_id: str) -> None:
    story = Story()
    story.settle(P0)
    story.beat(code)
    assert not story.machine.is_member, "a commit may not even be tried"
    assert story.next_request() is None
    assert story.carry_out() == Change(lost=frozenset({P0}))
    assert story.next_request().member_id == member_id


def test_a_member_fenced_during_a_change_loses_the_result() -> None:
    story = Story("cooperative-sticky")
    story.settle(P0)
    story.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    story.join(generation=2)
    story.sync(P0, P1)
    change = story.machine.take_change()
    assert change is not None
    story.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    story.machine.change_applied(change)
    assert story.carry_out() == Change(lost=frozenset({P0, P1}))
    assert isinstance(story.next_request(), JoinGroupRequest)


def test_a_lost_join_response_is_followed_by_another_join() -> None:
    story = Story()
    story.look()
    assert isinstance(story.next_request(), JoinGroupRequest)
    story.machine.on_no_response()
    story.join(generation=1)
    assert isinstance(story.next_request(), SyncGroupRequest)
    story.machine.on_no_response()
    assert isinstance(story.next_request(), JoinGroupRequest)


def test_a_rebalance_during_sync_rejoins() -> None:
    story = Story()
    story.look()
    story.join(generation=1)
    story.sync(code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(story.next_request(), JoinGroupRequest)


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    story = Story(metadata_interval_ms=10_000)
    story.look()
    story.join(generation=1, leads=True)
    story.look()
    story.sync(P0, P1, P2)
    story.carry_out()
    story.now_ms += 10_000
    story.look()
    assert isinstance(story.next_request(), HeartbeatRequest), "nothing has changed"
    story.answer(HeartbeatResponse())
    story.sizes["logs"] = 4
    story.now_ms += 10_000
    story.look()
    assert story.carry_out() == Change(revoked=frozenset({P0, P1, P2}))
    assert isinstance(story.next_request(), JoinGroupRequest)


def test_a_pattern_is_matched_to_whole_names_of_topics_that_are_not_internal() -> None:
    story = Story(pattern="log.*")
    asked = story.next_request()
    assert asked.all_topics
    topics = [topic("logs", 1), topic("my-logs", 1), topic("log-internal", 1, is_internal=True)]
    story.machine.on_topics(topics, story.now_ms)
    joined = story.join(generation=1)
    assert decode_subscriber(joined.protocols[0].metadata, None).topics == {"logs"}
    story.sync()
    story.now_ms += story.machine.settings.metadata_interval_ms
    assert story.next_request().all_topics
    story.machine.on_topics([*topics, topic("log-2", 1)], story.now_ms)
    told = decode_subscriber(story.next_request().protocols[0].metadata, None)
    assert told.topics == {"logs", "log-2"}


def test_a_new_subscription_rejoins() -> None:
    story = Story()
    story.settle(P0)
    story.machine.subscribe(Subscription(frozenset({"b"})))
    story.look()
    story.carry_out()
    told = decode_subscriber(story.next_request().protocols[0].metadata, None)
    assert told.topics == {"b"}


def test_a_static_member_sends_no_leave_group() -> None:
    story = Story()
    story.settle(P0)
    leaving = requested(story.machine.leave_request())
    assert isinstance(leaving, LeaveGroupRequest)
    assert [each.member_id for each in leaving.members] == ["me"]
    static = Story(instance_id="i")
    static.settle(P0)
    assert static.machine.leave_request() is None


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED]
)
def test_a_fatal_error_names_the_group(code: ErrorCode) -> None:
    story = Story()
    story.settle(P0)
    with pytest.raises(KafkaError, match="'g' refused this member") as raised:
        story.beat(code)
    assert raised.value.code is code


def test_no_request_is_due_between_heartbeats() -> None:
    story = Story()
    story.settle(P0)
    assert story.next_request() is None
    assert (
        story.machine.next_wakeup_ms()
        == story.now_ms + story.machine.settings.heartbeat_interval_ms
    )
    story.machine.heartbeat_now()
    assert isinstance(story.next_request(), HeartbeatRequest)


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
