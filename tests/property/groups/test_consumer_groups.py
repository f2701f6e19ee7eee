"""Consumer groups with members that are slow, lose responses or die, and with changing topics.

No two members of a group ever own a partition, epochs never fall, and a restart restores the state;
when all members behave well in the end, every partition is read.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sawlog.core.errors import ErrorCode
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from support.groups.consumer_group import REBALANCE_MS, Groups
from support.tiers import rounds

TOPICS = ("t1", "t2", "u1")
PATTERNS = ("t.*", ".*1", "u.*")
MOST_MEMBERS = 6
MOST_PARTITIONS = 6
STATIC_LEAVE = -2

Partition = tuple[bytes, int]

COMES_BACK = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Client:
    """A client that owns new partitions at once, and revokes partitions only when told to."""

    def __init__(
        self, groups: Groups, member_id: str, instance_id: str | None, subscription: dict[str, Any]
    ) -> None:
        self._groups = groups
        self.id = member_id
        self.instance_id = instance_id
        self.subscription = subscription
        self.epoch = 0
        self.is_in = False
        self.must_report_all = True
        self.holds: set[Partition] = set()
        self.assigned: set[Partition] = set()

    def join(self) -> int:
        self.abandon()
        self.epoch = 0
        return self._send(
            topic_partitions=[], rebalance_timeout_ms=REBALANCE_MS, **self.subscription
        )

    def beat(self, *, how: str, is_lost: bool = False) -> int:
        fields: dict[str, Any] = {}
        if how == "honest":
            self.holds &= self.assigned
        if how != "silent" or self.must_report_all:
            fields["topic_partitions"] = self._report()
        if self.must_report_all:
            fields |= {"rebalance_timeout_ms": REBALANCE_MS, **self.subscription}
        return self._send(is_lost=is_lost, **fields)

    def stale(self, epoch: int) -> int:
        """Send a heartbeat with another epoch, as a delayed packet would; ignore the response."""
        return self._send(epoch=epoch, is_lost=True)

    def leave(self, epoch: int) -> int:
        self.is_in = False
        self.abandon()
        return self._send(epoch=epoch, is_lost=True)

    def abandon(self) -> None:
        self.holds.clear()
        self.assigned = set()

    def _report(self) -> list[TopicPartitions]:
        topics = sorted({topic for topic, _ in self.holds})
        return [
            TopicPartitions(topic, sorted(index for other, index in self.holds if other == topic))
            for topic in topics
        ]

    def _send(self, *, epoch: int | None = None, is_lost: bool = False, **fields: Any) -> int:
        answer = self._groups.heartbeat(
            member_id=self.id,
            instance_id=self.instance_id,
            member_epoch=self.epoch if epoch is None else epoch,
            **fields,
        )
        if is_lost:
            self.must_report_all = True
        elif answer.error_code == 0:
            self._take(answer)
        elif answer.error_code in COMES_BACK:
            self.is_in = False
            self.abandon()
        return int(answer.error_code)

    def _take(self, answer: Any) -> None:
        assert self.epoch <= answer.member_epoch, "a member's epoch fell"
        self.epoch = answer.member_epoch
        self.is_in = True
        self.must_report_all = False
        if answer.assignment is not None:
            self.assigned = {
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }
            self.holds |= self.assigned


def snapshot(group: ConsumerGroup) -> dict[str, Any]:
    state = dict(vars(group))
    del state["checked_topics"]
    return state


subscriptions = st.one_of(
    st.sets(st.sampled_from(TOPICS)).map(lambda names: {"subscribed_topic_names": sorted(names)}),
    st.sampled_from(PATTERNS).map(lambda pattern: {"subscribed_topic_regex": pattern}),
    st.tuples(st.sampled_from(TOPICS), st.sampled_from(PATTERNS)).map(
        lambda both: {"subscribed_topic_names": [both[0]], "subscribed_topic_regex": both[1]}
    ),
)


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 2**32),
        interval_ms=st.sampled_from((0, 1_000)),
        assignors=st.sampled_from(("uniform,range", "range,uniform")),
    )
    def begin(self, seed: int, interval_ms: int, assignors: str) -> None:
        self.groups = Groups(seed=seed, interval_ms=interval_ms, group_consumer_assignors=assignors)
        self.groups.make(t1=3)
        self.clients: list[Client] = []
        self.away: list[Client] = []
        self.count = 0
        self.epoch = 0

    # Members

    @rule(subscription=subscriptions, is_static=st.booleans())
    def new_member(self, subscription: dict[str, Any], is_static: bool) -> None:
        if len(self.clients) >= MOST_MEMBERS:
            return
        self.count += 1
        instance_id = f"i{self.count}" if is_static else None
        client = Client(self.groups, f"m{self.count}", instance_id, subscription)
        assert client.join() == 0
        self.clients.append(client)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0), how=st.sampled_from(("honest", "honest", "silent", "holds on")))
    def beat(self, pick: int, how: str) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.is_in:
            client.beat(how=how)
        else:
            client.join()

    @precondition(lambda self: self.clients)
    @rule()
    def all_beat(self) -> None:
        for client in self.clients:
            client.beat(how="honest") if client.is_in else client.join()

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0))
    def lose_a_response(self, pick: int) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.is_in:
            client.beat(how="honest", is_lost=True)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0), behind=st.integers(-2, 3))
    def send_a_stale_heartbeat(self, pick: int, behind: int) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.is_in and client.epoch - behind > 0:
            client.stale(client.epoch - behind)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0), subscription=subscriptions)
    def subscribe(self, pick: int, subscription: dict[str, Any]) -> None:
        client = self.clients[pick % len(self.clients)]
        client.subscription = {
            "subscribed_topic_names": [],
            "subscribed_topic_regex": "",
            **subscription,
        }
        client.must_report_all = True
        if client.is_in:
            client.beat(how="holds on")

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0), is_back_soon=st.booleans())
    def leave(self, pick: int, is_back_soon: bool) -> None:
        client = self.clients.pop(pick % len(self.clients))
        if is_back_soon and client.instance_id is not None:
            client.leave(STATIC_LEAVE)
            self.away.append(client)
        else:
            client.leave(-1)

    @precondition(lambda self: self.away)
    @rule(pick=st.integers(0), has_new_id=st.booleans())
    def rejoin(self, pick: int, has_new_id: bool) -> None:
        client = self.away.pop(pick % len(self.away))
        if has_new_id:
            self.count += 1
            client.id = f"m{self.count}"
        client.join()
        self.clients.append(client)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0))
    def die(self, pick: int) -> None:
        self.clients.pop(pick % len(self.clients))

    # Environment

    @rule(duration_ms=st.sampled_from((1, 500, 2_000, 11_000, 30_000)))
    def pass_time(self, duration_ms: int) -> None:
        self.groups.pass_time(duration_ms)

    @rule(name=st.sampled_from(TOPICS), size=st.integers(1, 3))
    def create_or_delete_a_topic(self, name: str, size: int) -> None:
        if name in self.groups.machine.broker.metadata.image.topics:
            self.groups.delete(name)
        else:
            self.groups.make(**{name: size})

    @rule(name=st.sampled_from(TOPICS))
    def grow(self, name: str) -> None:
        topic = self.groups.machine.broker.metadata.image.topics.get(name)
        if topic is not None and len(topic.partitions) < MOST_PARTITIONS:
            self.groups.grow(name, len(topic.partitions) + 1)

    @rule()
    def restart(self) -> None:
        before = {
            group.id: snapshot(group)
            for group in self.groups.group_machine.groups.values()
            if isinstance(group, ConsumerGroup)
        }
        self.groups.restart()
        after = {
            group.id: snapshot(group)
            for group in self.groups.group_machine.groups.values()
            if isinstance(group, ConsumerGroup)
        }
        assert after == before

    # Invariants

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.groups.group_machine.groups.get("g")
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        """No two members of the group read the same partition, as the members see it."""
        group = self.group
        holders: dict[Partition, str] = {}
        for client in self.clients:
            if group is None or client.id not in group.members:
                continue
            for partition in client.holds:
                assert partition not in holders, (partition, holders[partition], client.id)
                holders[partition] = client.id

    @invariant()
    def epochs_never_fall(self) -> None:
        group = self.group
        if group is not None:
            assert group.epoch >= self.epoch
            assert group.target_epoch <= group.epoch
            assert all(member.epoch <= group.target_epoch for member in group.members.values())
            self.epoch = group.epoch

    @invariant()
    def the_indexes_match_the_members(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[bytes, dict[int, str]] = {}
        for member in group.members.values():
            for holding in (member.assigned, member.revoking):
                for topic, epochs in holding.items():
                    for partition, epoch in epochs.items():
                        assert partition not in owners.setdefault(topic, {})
                        owners[topic][partition] = member.id
                        assert epoch <= max(member.epoch, 0)
        assert owners == group.owners

    # Final state

    def teardown(self) -> None:
        if not hasattr(self, "groups"):
            return
        for _ in range(30):  # longer than a session: dead members time out
            self.groups.pass_time(3_000)
            for client in self.clients:
                client.beat(how="honest") if client.is_in else client.join()
            self.no_partition_has_two_readers()
        group = self.group
        if group is None or not self.clients:
            return
        assert set(group.members) == {client.id for client in self.clients}
        assert group.state_name == "Stable"
        assert {client.epoch for client in self.clients} == {group.epoch}
        held = [partition for client in self.clients for partition in client.holds]
        assert sorted(held) == sorted(self._subscribed_partitions(group))
        self.restart()

    def _subscribed_partitions(self, group: ConsumerGroup) -> list[Partition]:
        topics = self.groups.machine.broker.metadata.image.topics
        return [
            (topic.id, index)
            for name, topic in topics.items()
            if group.is_subscribed_to(name)
            for index in range(len(topic.partitions))
        ]


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("examples", rounds(long=120, soak=3_000))
def test_consumer_groups_for_long(examples: int) -> None:
    run_state_machine_as_test(
        ConsumerGroupMachine,
        settings=settings(
            TestConsumerGroups.settings, max_examples=examples, stateful_step_count=60
        ),
    )
