"""A classic group: its members agree among themselves who reads what; here is who they are.

What a restart brings back is what the last GroupMetadata record says: the members of a generation
with their assignments, or that nobody is left. Who waits for an answer, who is about to join and
the state between two generations are soft. A group without any members ever is one that only
commits offsets.
"""

from collections.abc import Callable
from typing import Any

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL, Member, Subscriptions, elect
from sawlog.groups.classic.classic_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    STABLE,
    Event,
    State,
    state_after,
)
from sawlog.groups.group import Group, GroupType
from sawlog.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
)
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey

Respond = Callable[[Any], None]
"""Answers a request that was parked, with its response message."""


class ClassicGroup(Group):
    """Invariants: `statics` has exactly the static members; the leader is a member where there are
    members; those who wait to join, wait to sync, are new or owe a sync are members, and pending
    members are not; while there are members, they have a protocol in common."""

    type = GroupType.CLASSIC
    protocol_type: str = ""

    def __init__(self, group_id: str, since_ms: int | None = None) -> None:
        self.id = group_id
        self.state: State = EMPTY
        self.since_ms = since_ms  # when the state was entered; records before version 2 lack it
        self.generation = 0
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.statics: dict[str, str] = {}  # member ids by instance id
        self.waiting_joins: dict[str, Respond] = {}
        self.waiting_syncs: dict[str, Respond] = {}
        self.newcomers: set[str] = set()  # members that never completed a join
        self.pending: set[str] = set()  # were given an id and have not joined with it (KIP-394)
        self.unsynced: set[str] = set()  # have not synced in this generation
        self.is_first_rebalance = False  # the one that gathers the first members
        self.has_late_newcomer = False  # since the first rebalance was last put off
        self.support: dict[str, int] = {}  # how many members offer a protocol
        self._subscriptions: Subscriptions | None = None

    def copy(self) -> "ClassicGroup":
        """A group that can be changed while this one stays as it is."""
        new = ClassicGroup.__new__(ClassicGroup)
        new.__dict__.update(self.__dict__)
        new.members = self.members.copy()
        new.statics = self.statics.copy()
        new.waiting_joins = self.waiting_joins.copy()
        new.waiting_syncs = self.waiting_syncs.copy()
        new.newcomers = self.newcomers.copy()
        new.pending = self.pending.copy()
        new.unsynced = self.unsynced.copy()
        new.support = self.support.copy()
        return new

    # What others ask

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """That of the slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return len(self.waiting_joins) == len(self.members) and not self.pending

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self._subscribed_topics
        if topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in topics

    def offsets_unused_since(self, commit_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_ms
        if self.state is EMPTY:
            return commit_ms if self.since_ms is None else self.since_ms
        if self.state is STABLE and self._subscribed_topics is not None:
            return commit_ms
        return None

    def describe(self) -> DescribedGroup:
        """Metadata is shown only while it is that of the protocol in use."""
        protocol = self.protocol if self.state is STABLE else None
        return DescribedGroup(
            group_id=self.id,
            group_state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.metadata(protocol),
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def tombstones(self) -> list[Entry]:
        return [Entry(GroupMetadataKey(self.id), None)]

    @property
    def _subscribed_topics(self) -> frozenset[str] | None:
        return None if self._subscriptions is None else self._subscriptions.topics

    # Checks

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        if instance_id is not None:
            known = self.statics.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_alive(self) -> None:
        if self.state is DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,  # noqa: ARG002
    ) -> None:
        """A generation below 0 is that of an admin or of a consumer without group management: it
        may commit while the group has no members."""
        self.check_alive()
        if epoch < 0 and self.state is EMPTY:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        else:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is COMPLETING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        self._check_found()

    def check_offset_delete(self) -> None:
        """Groups of consumers may lose offsets of topics that nobody reads; the caller sees to
        that. Of other groups one cannot know."""
        self._check_found()
        if self.state is not EMPTY and self.protocol_type != CONSUMER_PROTOCOL:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        self._check_found()
        if self.state is not EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _check_found(self) -> None:
        if self.state is DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    # Protocols

    def supports(self, protocol_type: str, names: frozenset[str]) -> bool:
        """Could a member join that offers these protocols?"""
        if self.state is EMPTY:
            return bool(protocol_type and names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.support.get(name, 0) == size for name in names
        )

    def elect_protocol(self) -> str | None:
        """The favourite among those that all members offer."""
        size = len(self.members)
        common = frozenset(name for name, count in self.support.items() if count == size)
        return elect(member.vote(common) for member in self.members.values())

    def _count_protocols(self, member: Member, by: int) -> None:
        for name in member.protocol_names:
            count = self.support.get(name, 0) + by
            if count:
                self.support[name] = count
            else:
                del self.support[name]

    def read_subscriptions(self) -> None:
        """What the generation's members subscribed to; unknown but for groups of consumers."""
        if self.protocol_type != CONSUMER_PROTOCOL or (self.members and self.protocol is None):
            self._subscriptions = None
        else:
            protocol = self.protocol
            self._subscriptions = Subscriptions(
                [member.metadata(protocol) for member in self.members.values()]
            )

    # Changes: they tell nobody, and leave it to the caller whether they are legal now

    def move(self, event: Event, now_ms: int) -> None:
        self.is_first_rebalance = event is Event.REBALANCE and self.state is EMPTY
        self.state = state_after(self.state, event)
        self.since_ms = now_ms

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.id
        self._count_protocols(member, 1)
        if self.leader is None:
            self.leader = member.id
        self.pending.discard(member.id)

    def update(self, member: Member) -> None:
        """The same member with other properties."""
        old = self.members[member.id]
        if member.protocols != old.protocols:
            self._count_protocols(old, -1)
            self._count_protocols(member, 1)
        self.members[member.id] = member

    def replace(self, old_id: str, member: Member) -> None:
        """A static member came back under a new id: it takes the place of what it was before."""
        is_leader = self.leader == old_id
        owes_sync = old_id in self.unsynced
        self.remove(old_id)
        self.add(member, self.protocol_type)
        if is_leader:
            self.leader = member.id
        if owes_sync:
            self.unsynced.add(member.id)

    def remove(self, member_id: str) -> None:
        """A member or a pending one; nobody is answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                self.statics.pop(member.instance_id, None)
            self.waiting_joins.pop(member_id, None)
            self.waiting_syncs.pop(member_id, None)
            self.newcomers.discard(member_id)
            self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)

    def begin_generation(self, now_ms: int) -> None:
        """All who will be members are, and wait for their assignments; or nobody is left."""
        self.generation += 1
        self.protocol = self.elect_protocol()
        self.read_subscriptions()
        self.newcomers.clear()
        self.unsynced = set(self.members)
        self.move(Event.JOINED if self.members else Event.EMPTIED, now_ms)
