"""A consumer group (KIP-848): its members, their target assignments and their current assignments.

The group epoch rises whenever a new target assignment is needed; the target epoch is the group
epoch for which the target was computed; a member's epoch is the target epoch that it has reached.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_member import (
    STABLE,
    Assignment,
    ConsumerMember,
    Holding,
    ResolvedRegex,
)
from sawlog.groups.group import Group, GroupType

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.group import PartitionCheck

K = TypeVar("K")

FIRST_EPOCH = 1
NO_TARGET: Assignment = {}
NO_OWNERS: Mapping[int, str] = {}
FIRST_COMMIT_VERSION_WITH_EPOCHS = 9
NO_EPOCH = -1
"""The epoch in commits that name no member."""


class ConsumerGroup(Group):
    """Invariants: `owners` has for each assigned or revoking partition the one member that owns it;
    the counts match `members` and `resolved`. Only replay changes a group, except for
    `checked_topics`."""

    type = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        # Indexes over the attributes above
        self.static_ids: dict[str, str] = {}
        self.owners: dict[TopicId, dict[int, str]] = {}
        self.subscribed: dict[str, int] = {}
        self.regexes: dict[str, int] = {}
        self.assignor_votes: dict[str, int] = {}
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        self._stable_epochs: dict[int, int] = {}
        # Never written
        self.checked_topics: object = None
        """The topics of the image that `metadata_hash` was last found to match."""

    # Queries

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if self._stable_epochs.get(self.target_epoch, 0) < len(self.members):
            return "Reconciling"
        return "Stable"

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def offsets_unused_since(self, commit_ms: int) -> int | None:
        return commit_ms

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        return elect_assignor(self.assignor_votes, default)

    # Checks

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.id} has no member {member_id}."
            )
        return member

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        *,
        is_transactional: bool = False,
    ) -> "PartitionCheck | None":
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if (
            not is_transactional
            and not member.is_classic
            and api_version < FIRST_COMMIT_VERSION_WITH_EPOCHS
        ):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Members of a consumer group must use OffsetCommit version 9 or later.",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"The member epoch is {member.epoch}, older than {epoch}.")

        def check(topic_id: bytes, partition: int) -> None:
            """A member with an older epoch may commit partitions that it had in that epoch."""
            assigned_in = member.epoch_of(TopicId(topic_id), partition)
            if assigned_in is None:
                raise _stale(member, f"Partition {partition} is not assigned to the member.")
            if epoch < assigned_in:
                raise _stale(member, f"Partition {partition} was assigned in epoch {assigned_in}.")

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(member, f"The member epoch is {member.epoch}, not {member_epoch}.")

    def check_offset_delete(self) -> None:
        """Always allowed; the caller checks the subscription of each topic."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> "list[Entry]":
        return [
            *(consumer_records.current_tombstone(self.id, member_id) for member_id in self.members),
            *(consumer_records.target_tombstone(self.id, member_id) for member_id in self.members),
            consumer_records.target_epoch_tombstone(self.id),
            *(
                consumer_records.subscription_tombstone(self.id, member_id)
                for member_id in self.members
            ),
            *(consumer_records.regex_tombstone(self.id, pattern) for pattern in self.resolved),
            consumer_records.partition_metadata_tombstone(self.id),
            consumer_records.group_tombstone(self.id),
        ]

    # Members

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """The target of a member; a static member inherits that of its instance id."""
        member_id: str | None = member.id
        if member.instance_id is not None:
            member_id = self.static_ids.get(member.instance_id)
        return NO_TARGET if member_id is None else self.targets.get(member_id, NO_TARGET)

    def owners_of(self, topic_id: TopicId) -> Mapping[int, str]:
        return self.owners.get(topic_id, NO_OWNERS)

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace it by its changed self."""
        old = self.members.get(member.id)
        if old is not None:
            self._uncount(old)
        self.members[member.id] = member
        self._count(member)

    def drop(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._uncount(old)

    def _count(self, member: ConsumerMember) -> None:
        count(self.subscribed, member.topics)
        count(self.regexes, [member.regex] if member.regex else ())
        count(self.assignor_votes, [member.assignor] if member.assignor is not None else ())
        if member.state is STABLE:
            count(self._stable_epochs, [member.epoch])
        if member.classic is not None:
            self.classic_members += 1
            count(self.classic_protocols, [p.name for p in member.classic.supported_protocols])
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self._own(member.id, member.assigned)
        self._own(member.id, member.revoking)

    def _uncount(self, member: ConsumerMember) -> None:
        uncount(self.subscribed, member.topics)
        uncount(self.regexes, [member.regex] if member.regex else ())
        uncount(self.assignor_votes, [member.assignor] if member.assignor is not None else ())
        if member.state is STABLE:
            uncount(self._stable_epochs, [member.epoch])
        if member.classic is not None:
            self.classic_members -= 1
            uncount(self.classic_protocols, [p.name for p in member.classic.supported_protocols])
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.id:
            del self.static_ids[member.instance_id]
        self._disown(member.id, member.assigned)
        self._disown(member.id, member.revoking)

    def _own(self, member_id: str, holding: Holding) -> None:
        for topic_id, epochs in holding.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))

    def _disown(self, member_id: str, holding: Holding) -> None:
        for topic_id, epochs in holding.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in epochs:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]

    # Group and target

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def set_target_epoch(self, epoch: int, computed_ms: int) -> None:
        self.target_epoch = epoch
        self.target_ms = computed_ms

    def set_target(self, member_id: str, target: Assignment) -> None:
        self.targets[member_id] = target

    def drop_target(self, member_id: str) -> None:
        self.targets.pop(member_id, None)

    def set_partition_metadata(self, *, is_present: bool) -> None:
        """Note whether the log has a partition metadata record, which brokers up to 4.0 wrote."""
        self.has_partition_metadata = is_present

    def set_checked_topics(self, topics: object) -> None:
        """Note that `metadata_hash` matches these topics of an image; None: check again."""
        self.checked_topics = topics

    # Regular expressions

    def set_resolved(self, pattern: str, resolved: ResolvedRegex) -> None:
        self.drop_resolved(pattern)
        self.resolved[pattern] = resolved
        count(self.subscribed, resolved.topics)

    def drop_resolved(self, pattern: str) -> None:
        old = self.resolved.pop(pattern, None)
        if old is not None:
            uncount(self.subscribed, old.topics)


def elect_assignor(votes: Mapping[str, int], default: str) -> str:
    """The assignor with the most votes; with equal votes the default, then the first by name."""
    if not votes:
        return default
    return min(votes, key=lambda name: (-votes[name], name != default, name))


def count(counts: dict[K, int], keys: Iterable[K]) -> None:
    for key in keys:
        counts[key] = counts.get(key, 0) + 1


def uncount(counts: dict[K, int], keys: Iterable[K]) -> None:
    for key in keys:
        left = counts[key] - 1
        if left:
            counts[key] = left
        else:
            del counts[key]


def _stale(member: ConsumerMember, words: str) -> KafkaError:
    """The error for a wrong epoch, in the member's own protocol."""
    code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, words)
