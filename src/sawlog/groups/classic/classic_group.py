"""A classic group: one of its members, the leader, assigns the partitions to all of them.

A restart restores what the last GroupMetadata record says: the members of a generation with their
assignments, or an empty group. Parked requests, joins in progress and the states between two
generations are not written. A group that never had members only has committed offsets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_member import (
    CONSUMER_PROTOCOL,
    NO_ASSIGNMENT,
    ClassicMember,
    Subscriptions,
    elect_protocol,
)
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
from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue

Respond = Callable[[Any], None]
"""Answers a parked request with its response message."""

RECORD_VERSION = 3
"""The version of GroupMetadataValue that Kafka 4.3 writes."""

_NO_TIME = -1


class ClassicGroup(Group):
    """Invariants: `static_ids` has exactly the static members; the leader is a member if there are
    members; waiting, new and unsynced members are members, pending members are not; while there are
    members, they have a protocol in common."""

    type = GroupType.CLASSIC
    protocol_type: str = ""

    def __init__(self, group_id: str, state_since_ms: int | None = None) -> None:
        self.id = group_id
        self.state: State = EMPTY
        self.state_since_ms = state_since_ms  # records before version 2 do not have it
        self.generation = 0
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # member ids by instance id
        self.waiting_joins: dict[str, Respond] = {}
        self.waiting_syncs: dict[str, Respond] = {}
        self.new_members: set[str] = set()  # their first join is not answered yet
        self.pending: set[str] = set()  # got an id and have not joined with it (KIP-394)
        self.unsynced: set[str] = set()  # have not synced in this generation
        self.is_first_rebalance = False  # it waits for more members to join
        self.has_late_newcomer = False  # a member joined since the first rebalance was last delayed
        self.protocol_counts: dict[str, int] = {}  # how many members support a protocol
        self._subscriptions: Subscriptions | None = None

    @classmethod
    def of_generation(
        cls,
        group_id: str,
        members: Iterable[ClassicMember],
        *,
        generation: int,
        protocol_type: str,
        protocol: str | None,
        leader: str | None = None,
        state_since_ms: int | None,
    ) -> "ClassicGroup":
        """Create a group whose generation is complete: stable with members, else empty. Without a
        leader among the members the first of them is the leader."""
        group = cls(group_id, state_since_ms)
        group.generation = generation
        group.protocol = protocol
        group.protocol_type = protocol_type
        for member in members:
            group.add(member, protocol_type)
        if leader in group.members:
            group.leader = leader
        if group.members:
            group.state = STABLE
        group.read_subscriptions()
        return group

    def copy(self) -> "ClassicGroup":
        """Return a group that can change while this one stays as it is."""
        new = ClassicGroup.__new__(ClassicGroup)
        new.__dict__.update(self.__dict__)
        new.members = self.members.copy()
        new.static_ids = self.static_ids.copy()
        new.waiting_joins = self.waiting_joins.copy()
        new.waiting_syncs = self.waiting_syncs.copy()
        new.new_members = self.new_members.copy()
        new.pending = self.pending.copy()
        new.unsynced = self.unsynced.copy()
        new.protocol_counts = self.protocol_counts.copy()
        return new

    # Records

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        since_ms = value.current_state_timestamp
        return cls.of_generation(
            group_id,
            (ClassicMember.from_record(member, value.protocol or "") for member in value.members),
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol=value.protocol,
            leader=value.leader,
            state_since_ms=None if since_ms == _NO_TIME else since_ms,
        )

    def record(self, generation: int | None = None) -> Entry:
        """The record of the group, in another generation if one is given.

        A group is written when the leader has assigned the partitions, when its last member has
        left and when a static member gets a new id; not when a member joins. So the record of a
        stable or empty group describes it completely.
        """
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation if generation is None else generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=(
                _NO_TIME if self.state_since_ms is None else self.state_since_ms
            ),
            members=[member.record(self.protocol) for member in self.members.values()],
        )
        return Entry(GroupMetadataKey(self.id), value, RECORD_VERSION)

    def tombstones(self) -> list[Entry]:
        return [Entry(GroupMetadataKey(self.id), None)]

    # Queries

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' rebalance timeouts."""
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
            return commit_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is STABLE and self._subscribed_topics is not None:
            return commit_ms
        return None

    def describe(self) -> DescribedGroup:
        """Describe the group for DescribeGroups; metadata is included only in a stable group."""
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

    @property
    def _subscribed_topics(self) -> frozenset[str] | None:
        return None if self._subscriptions is None else self._subscriptions.topics

    # Checks

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
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
        *,
        is_transactional: bool = False,
    ) -> None:
        """An admin client, or a consumer without group management, commits with a generation below
        0; it may do so while the group is empty. A transactional commit may come at any time."""
        self.check_alive()
        if epoch < 0 and self.state is EMPTY:
            return
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not is_transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is COMPLETING and not is_transactional:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        self._check_found()

    def check_offset_delete(self) -> None:
        """Offsets of a group of consumers may be deleted for topics without subscribers, which the
        caller checks; the subscriptions of other groups are unknown."""
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
        """Whether a member with these protocols could join."""
        if self.state is EMPTY:
            return bool(protocol_type and names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.protocol_counts.get(name, 0) == size for name in names
        )

    def elect_protocol(self) -> str | None:
        return elect_protocol(self.members.values())

    def _count_protocols(self, member: ClassicMember, by: int) -> None:
        for name in member.protocol_names:
            count = self.protocol_counts.get(name, 0) + by
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]

    def read_subscriptions(self) -> None:
        """Take the subscriptions of this generation; they are known in groups of consumers only."""
        if self.protocol_type != CONSUMER_PROTOCOL or (self.members and self.protocol is None):
            self._subscriptions = None
        else:
            protocol = self.protocol
            self._subscriptions = Subscriptions(
                [member.metadata(protocol) for member in self.members.values()]
            )

    # Changes: they answer no request, and the caller checks that they are legal

    def move(self, event: Event, now_ms: int) -> None:
        following = state_after(self.state, event)
        self.is_first_rebalance = event is Event.REBALANCE and self.state is EMPTY
        self.has_late_newcomer = False
        self.state = following
        self.state_since_ms = now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self._count_protocols(member, 1)
        if self.leader is None:
            self.leader = member.id
        self.pending.discard(member.id)

    def add_newcomer(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member whose first join is parked."""
        if self.is_first_rebalance:
            self.has_late_newcomer = True
        self.add(member, protocol_type)
        self.new_members.add(member.id)

    def add_pending(self, member_id: str) -> None:
        """Note an id that a client got and has to join with (KIP-394)."""
        self.pending.add(member_id)

    def update(self, member: ClassicMember) -> None:
        """Replace a member by the same member with other properties."""
        old = self.members[member.id]
        if member.protocols != old.protocols:
            self._count_protocols(old, -1)
            self._count_protocols(member, 1)
        self.members[member.id] = member

    def replace(self, old_id: str, member: ClassicMember) -> None:
        """Replace a static member that rejoined with a new id."""
        is_leader = self.leader == old_id
        is_unsynced = old_id in self.unsynced
        self.remove(old_id)
        self.add(member, self.protocol_type)
        if is_leader:
            self.leader = member.id
        if is_unsynced:
            self.unsynced.add(member.id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                self.static_ids.pop(member.instance_id, None)
            self.waiting_joins.pop(member_id, None)
            self.waiting_syncs.pop(member_id, None)
            self.new_members.discard(member_id)
            self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)

    def elect_joined_leader(self) -> bool:
        """Replace a leader that did not rejoin by a member that did; False if no member did."""
        if self.leader not in self.waiting_joins:
            joined = (member_id for member_id in self.members if member_id in self.waiting_joins)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader = leader
        return True

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the current members, or become empty without any."""
        self.generation += 1
        self.protocol = self.elect_protocol()
        self.read_subscriptions()
        self.new_members.clear()
        self.unsynced = set(self.members)
        self.move(Event.JOINED if self.members else Event.EMPTIED, now_ms)

    def delay_first_rebalance(self) -> None:
        """Wait once more for further members."""
        self.has_late_newcomer = False

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Set the assignments of all members; a member that is not named gets an empty one."""
        for member in tuple(self.members.values()):
            assignment = assignments.get(member.id, NO_ASSIGNMENT)
            if assignment != member.assignment:
                self.members[member.id] = member._replace(assignment=assignment)

    def mark_synced(self, member_id: str) -> None:
        self.unsynced.discard(member_id)

    def clear_unsynced(self) -> None:
        self.unsynced.clear()

    def take_waiting(self) -> tuple[dict[str, Respond], dict[str, Respond]]:
        """Remove all parked requests; return the joins and the syncs, by member id."""
        joins, self.waiting_joins = self.waiting_joins, {}
        syncs, self.waiting_syncs = self.waiting_syncs, {}
        return joins, syncs
