"""A consumer group as the offsets and the admin requests see it, and its records."""

from typing import Any

import pytest

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.consumer.consumer_member import UNKNOWN, UNREVOKED, ConsumerMember, ResolvedRegex
from sawlog.groups.consumer.replay import ConsumerReplay
from sawlog.groups.group import Group
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.consumer_group_current_member_assignment_value import (
    TopicPartitions,
)
from sawlog.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from sawlog.protocol.messages.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from sawlog.protocol.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
)

T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)
CLASSIC = ClassicMemberMetadata(10_000, [ClassicProtocol("range", b"")])


def member(name: str = "m", **fields: Any) -> ConsumerMember:
    fields.setdefault("epoch", 5)
    fields.setdefault("topics", frozenset({"t"}))
    return ConsumerMember(name, **fields)


def group(*members: ConsumerMember) -> ConsumerGroup:
    made = ConsumerGroup("g")
    for one in members:
        made.put(one)
    return made


# Commits and fetches of offsets


def refusal(call: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code


def test_an_empty_group_accepts_commits_without_a_member_only() -> None:
    assert group().check_commit("", None, -1, 9) is None
    assert refusal(group().check_commit, "m", None, 0, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group(member()).check_commit, "", None, -1, 9) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_commits_in_its_epoch() -> None:
    assert group(member()).check_commit("m", None, 5, 9) is None
    assert refusal(group(member()).check_commit, "m", None, 6, 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(group(member()).check_commit, "m", None, 5, 8) is ErrorCode.UNSUPPORTED_VERSION


def test_a_member_commits_kept_partitions_in_an_older_epoch() -> None:
    holder = member(assigned={T: {0: 3, 1: 5}}, revoking={U: {0: 2}}, state=UNREVOKED)
    check = group(holder).check_commit("m", None, 4, 9)
    assert check is not None
    check(T, 0)
    check(U, 0)
    assert refusal(check, T, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(check, T, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(check, b"x" * 16, 0) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_classic_member_gets_the_errors_of_its_protocol() -> None:
    classic = group(member(classic=CLASSIC))
    assert classic.check_commit("m", None, 5, 2) is None
    assert refusal(classic.check_commit, "m", None, 6, 2) is ErrorCode.ILLEGAL_GENERATION
    check = classic.check_commit("m", None, 4, 2)
    assert check is not None
    assert refusal(check, T, 0) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(classic.check_fetch, "m", 4) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_fetches_in_its_epoch_and_an_admin_always() -> None:
    readers = group(member())
    readers.check_fetch(None, -1)
    readers.check_fetch("m", 5)
    assert refusal(readers.check_fetch, "m", 4) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(readers.check_fetch, "m", 6) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(readers.check_fetch, "x", 5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(readers.check_fetch, None, 5) is ErrorCode.UNKNOWN_MEMBER_ID


# Admin requests


def test_only_an_empty_group_is_deleted() -> None:
    group().check_delete()
    assert refusal(group(member()).check_delete) is ErrorCode.NON_EMPTY_GROUP
    group(member()).check_offset_delete()


def test_the_state_follows_from_the_epochs() -> None:
    readers = group()
    assert (readers.state_name, readers.is_empty) == ("Empty", True)
    readers.put(member(epoch=5))
    readers.epoch, readers.target_epoch = 6, 5
    assert (readers.state_name, readers.is_empty) == ("Assigning", False)
    readers.target_epoch = 6
    assert readers.state_name == "Reconciling"
    readers.put(member(epoch=6, state=UNREVOKED))
    assert readers.state_name == "Reconciling"
    readers.put(member(epoch=6))
    assert readers.state_name == "Stable"
    readers.put(member("n", epoch=5))
    assert readers.state_name == "Reconciling"
    readers.drop("n")
    assert readers.state_name == "Stable"


def test_a_topic_is_subscribed_by_name_or_by_regular_expression() -> None:
    readers = group(member(topics=frozenset({"t", "u"})), member("n"))
    readers.set_resolved("t.*", ResolvedRegex(frozenset({"t", "tt"}), 0, 0))
    assert [readers.is_subscribed_to(name) for name in ("t", "u", "tt", "x")] == [
        True,
        True,
        True,
        False,
    ]
    readers.drop("m")
    assert not readers.is_subscribed_to("u")
    readers.drop("n")
    assert readers.is_subscribed_to("t")
    readers.set_resolved("t.*", ResolvedRegex(frozenset({"tt"}), 0, 0))
    assert not readers.is_subscribed_to("t")
    readers.drop_resolved("t.*")
    assert readers.subscribed == {}


def test_the_retention_of_an_offset_starts_with_its_commit() -> None:
    assert group().offsets_unused_since(7) == 7


# Records


def replayed(*records: Entry, groups: dict[str, Group] | None = None) -> dict[str, Group]:
    """The groups after encoding, decoding and replaying these records."""
    found = {} if groups is None else groups
    replayers = ConsumerReplay(found).replayers
    for record in records:
        copy = GROUP_RECORDS.decode(*GROUP_RECORDS.encode(record))
        replayers[type(copy.key)](copy.key, copy.value)
    return found


def whole_group() -> ConsumerGroup:
    first = member(
        previous_epoch=4,
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=1_000,
        client_id="c",
        client_host="/h",
        regex="t.*",
        assignor="range",
        state=UNREVOKED,
        assigned={T: {0: 3, 1: 5}},
        revoking={U: {2: 4}},
    )
    made = group(first, member("n", classic=CLASSIC, topics=frozenset(), regex=None))
    made.set_epoch(7, -9)
    made.set_target_epoch(6, 99)
    made.set_target("m", {T: frozenset({1})})
    made.set_target("n", {})
    made.set_resolved("t.*", ResolvedRegex(frozenset({"t", "tt"}), 3, 42))
    return made


def records_of(made: ConsumerGroup) -> list[Entry]:
    members = made.members.values()
    return [
        *(consumer_records.subscription("g", one) for one in members),
        *(consumer_records.current("g", one) for one in members),
        *(consumer_records.target("g", name, target) for name, target in made.targets.items()),
        consumer_records.group_epoch("g", made.epoch, made.metadata_hash),
        consumer_records.target_epoch("g", made.target_epoch, made.target_ms),
        *(consumer_records.regex("g", pattern, found) for pattern, found in made.resolved.items()),
    ]


def same(one: Group, other: Group) -> bool:
    return vars(one) == vars(other)


@pytest.mark.parametrize("backwards", [False, True])
def test_records_restore_the_group_in_any_order(backwards: bool) -> None:
    made = whole_group()
    records = records_of(made)
    again = replayed(*(records[::-1] if backwards else records))["g"]
    assert same(again, made)


def test_tombstones_delete_the_group() -> None:
    made = whole_group()
    assert replayed(*records_of(made), *made.tombstones()) == {}
    assert replayed(*made.tombstones()) == {}


def test_a_removed_member_is_removed_from_all_indexes() -> None:
    made = whole_group()
    gone = [
        *consumer_records.member_tombstones("g", "m"),
        *consumer_records.member_tombstones("g", "n"),
        consumer_records.regex_tombstone("g", "t.*"),
    ]
    left = replayed(*records_of(made), *gone)["g"]
    empty = ConsumerGroup("g")
    empty.epoch, empty.metadata_hash, empty.target_epoch, empty.target_ms = 7, -9, 6, 99
    assert same(left, empty)


def test_a_simple_group_is_replaced() -> None:
    groups: dict[str, Group] = {"g": ClassicGroup("g", 0)}
    replayed(consumer_records.group_epoch("g", 3, 0), groups=groups)
    assert isinstance(groups["g"], ConsumerGroup)


def test_a_classic_group_ignores_tombstones_of_a_consumer_group() -> None:
    groups: dict[str, Group] = {"g": ClassicGroup("g", 0)}
    replayed(*whole_group().tombstones(), groups=groups)
    assert isinstance(groups["g"], ClassicGroup)


def test_missing_assignment_epochs_default_to_the_member_epoch() -> None:
    record = consumer_records.current("g", member(assigned={T: {0: 3}}))
    assert record.value is not None
    for epoch, expected in ((5, 5), (-2, 0)):
        for epochs in (None, [1, 2]):
            record.value.member_epoch = epoch
            record.value.assigned_partitions = [TopicPartitions(T, [0], epochs)]
            found = replayed(record)["g"]
            assert isinstance(found, ConsumerGroup)
            assert found.members["m"].assigned == {T: {0: expected}}


def test_an_undefined_member_state_is_unknown() -> None:
    record = consumer_records.current("g", member())
    assert record.value is not None
    record.value.state = 9
    found = replayed(record)["g"]
    assert isinstance(found, ConsumerGroup)
    assert found.members["m"].state is UNKNOWN


def test_partition_metadata_is_noted_until_its_tombstone() -> None:
    key = ConsumerGroupPartitionMetadataKey("g")
    groups = replayed(Entry(key, ConsumerGroupPartitionMetadataValue()))
    found = groups["g"]
    assert isinstance(found, ConsumerGroup)
    assert found.has_partition_metadata
    replayed(consumer_records.partition_metadata_tombstone("g"), groups=groups)
    assert not found.has_partition_metadata
