"""A consumer group (KIP-848): its members, where each of them is to go and where it is.

Three epochs tell how far it is. The group's rises whenever the target must be computed anew; the
target's says for which group epoch it was computed; a member's says up to which target it came.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_member import (
    STABLE,
    Assignment,
    Holding,
    Member,
    ResolvedRegex,
)
from sawlog.groups.group import Group, GroupType

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.group import PartitionCheck

K = TypeVar("K")

FIRST_EPOCH = 1
NO_TARGET: Assignment = {}
NOBODYS: Mapping[int, str] = {}
FIRST_COMMIT_VERSION_WITH_EPOCHS = 9


class ConsumerGroup(Group):
    """Invariants: `owners` names for each held partition the one member that holds it; the counts
    are those of `members` and `resolved`. Changed by replay alone, but for `checked_topics`."""

    type = GroupType.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        # Indexes of the above
        self.static_ids: dict[str, str] = {}
        self.owners: dict[TopicId, dict[int, str]] = {}
        self.subscribed: dict[str, int] = {}
        self.regexes: dict[str, int] = {}
        self.votes: dict[str, int] = {}
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        self._arrived: dict[int, int] = {}
        # Never written
        self.checked_topics: object = None
        """The topics of the image with which `metadata_hash` was last found to agree."""

    # What others see

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if self._arrived.get(self.target_epoch, 0) < len(self.members):
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
        """The one that most members ask for."""
        return most_wanted(self.votes, default)

    # Checks

    def member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.id} has no member {member_id}."
            )
        return member

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002 - the member's id tells it already
        epoch: int,
        api_version: int,
    ) -> "PartitionCheck | None":
        if epoch < 0 and not self.members:
            return None
        member = self.member(member_id)
        if not member.is_classic and api_version < FIRST_COMMIT_VERSION_WITH_EPOCHS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "A member of a consumer group commits with version 9 or above.",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"The member is in epoch {member.epoch}, before {epoch}.")

        def check(topic_id: bytes, partition: int) -> None:
            """A member that lags behind may still commit what it has had since then."""
            given = member.epoch_of(TopicId(topic_id), partition)
            if given is None:
                raise _stale(member, f"The member does not hold partition {partition}.")
            if epoch < given:
                raise _stale(member, f"Partition {partition} is the member's since epoch {given}.")

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(member, f"The member is in epoch {member.epoch}, not {member_epoch}.")

    def check_offset_delete(self) -> None:
        """Always; topics that are read are looked at one by one."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> "list[Entry]":
        return [
            *(consumer_records.no_current(self.id, member_id) for member_id in self.members),
            *(consumer_records.no_target(self.id, member_id) for member_id in self.members),
            consumer_records.no_target_epoch(self.id),
            *(consumer_records.no_subscription(self.id, member_id) for member_id in self.members),
            *(consumer_records.no_regex(self.id, pattern) for pattern in self.resolved),
            consumer_records.no_partition_metadata(self.id),
            consumer_records.no_group(self.id),
        ]

    # Members

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: Member) -> Assignment:
        """A static member takes over from whoever had its instance id before."""
        member_id: str | None = member.id
        if member.instance_id is not None:
            member_id = self.static_ids.get(member.instance_id)
        return NO_TARGET if member_id is None else self.targets.get(member_id, NO_TARGET)

    def owners_of(self, topic_id: TopicId) -> Mapping[int, str]:
        return self.owners.get(topic_id, NOBODYS)

    def put(self, member: Member) -> None:
        """A member that is new, or has changed."""
        old = self.members.get(member.id)
        if old is not None:
            self._uncount(old)
        self.members[member.id] = member
        self._count(member)

    def drop(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._uncount(old)

    def _count(self, member: Member) -> None:
        count(self.subscribed, member.topics)
        count(self.regexes, [member.regex] if member.regex else ())
        count(self.votes, [member.assignor] if member.assignor is not None else ())
        if member.state is STABLE:
            count(self._arrived, [member.epoch])
        if member.classic is not None:
            self.classic_members += 1
            count(self.classic_protocols, [p.name for p in member.classic.supported_protocols])
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self._own(member.id, member.assigned)
        self._own(member.id, member.revoking)

    def _uncount(self, member: Member) -> None:
        discount(self.subscribed, member.topics)
        discount(self.regexes, [member.regex] if member.regex else ())
        discount(self.votes, [member.assignor] if member.assignor is not None else ())
        if member.state is STABLE:
            discount(self._arrived, [member.epoch])
        if member.classic is not None:
            self.classic_members -= 1
            discount(self.classic_protocols, [p.name for p in member.classic.supported_protocols])
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

    # Patterns

    def resolve(self, pattern: str, resolved: ResolvedRegex) -> None:
        self.forget(pattern)
        self.resolved[pattern] = resolved
        count(self.subscribed, resolved.topics)

    def forget(self, pattern: str) -> None:
        old = self.resolved.pop(pattern, None)
        if old is not None:
            discount(self.subscribed, old.topics)


def most_wanted(votes: Mapping[str, int], default: str) -> str:
    """Among equals the default comes first, then the first by name."""
    if not votes:
        return default
    return min(votes, key=lambda name: (-votes[name], name != default, name))


def count(counts: dict[K, int], keys: Iterable[K]) -> None:
    for key in keys:
        counts[key] = counts.get(key, 0) + 1


def discount(counts: dict[K, int], keys: Iterable[K]) -> None:
    for key in keys:
        left = counts[key] - 1
        if left:
            counts[key] = left
        else:
            del counts[key]


def _stale(member: Member, words: str) -> KafkaError:
    """What a fenced member is told, in the words of its own protocol."""
    code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, words)
