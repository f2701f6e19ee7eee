"""The conversion of groups between the two protocols."""

import pytest

from sawlog.core.config import BrokerConfig
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import Protocol
from sawlog.groups.classic.classic_states import STABLE
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.consumer.consumer_member import ConsumerMember
from sawlog.groups.migration.downgrade import (
    classic_group_of,
    may_downgrade,
    may_downgrade_by_replacement,
)
from sawlog.groups.migration.member_assignments import write_assignment
from sawlog.groups.migration.upgrade import check_upgrade, consumer_group_of
from sawlog.protocol.consumer_protocol import read_assignment, read_subscription, version_of
from support.groups.migration import (
    ASSIGNORS,
    assignment,
    by_id,
    classic_group,
    image,
    subscription,
    topic_id,
)

KNOWN = image(t=4, u=2)
NOW_MS = 5_000


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})


def refused(group: ClassicGroup, settings: BrokerConfig | None = None) -> ErrorCode:
    def upgrade() -> None:
        check_upgrade(group, settings or config())
        consumer_group_of(group, KNOWN)

    with pytest.raises(KafkaError) as error:
        upgrade()
    return error.value.code


def upgraded(*consumers: str) -> ConsumerGroup:
    """A group of the classic members `a` and `b` and of these consumer protocol members."""
    group = consumer_group_of(classic_group(KNOWN, {"a": {"t": {0, 1}}, "b": {"t": {2}}}), KNOWN)
    for name in consumers:
        group.put(ConsumerMember(name, epoch=7, instance_id=f"i-{name}", topics=frozenset({"t"})))
        group.set_target(name, by_id({"t": {3}}))
    return group


# Subscriptions and assignments


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_is_decoded_in_every_version(version: int) -> None:
    read = read_subscription(subscription("t", "u", owned={"t": {1, 2}}, version=version))
    assert read.topics == ["t", "u"]
    owned = [(topic.topic, topic.partitions) for topic in read.owned_partitions]
    assert owned == ([("t", [1, 2])] if version else [])


def test_an_unknown_newer_version_is_decoded_as_the_newest() -> None:
    newest = subscription("t", version=3)
    assert read_subscription((99).to_bytes(2) + newest[2:]).topics == ["t"]
    assert version_of((99).to_bytes(2)) == 3


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff", b"\0\1\0\0\0\x09", subscription("t")[:-9]]
)
def test_damaged_messages_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_subscription(data)


def test_deleted_topics_are_left_out_of_an_assignment() -> None:
    written = write_assignment(by_id({"t": {2, 0}, "gone": {1}, "u": {1}}), 1, KNOWN)
    assert version_of(written) == 1
    decoded = [
        (part.topic, part.partitions) for part in read_assignment(written).assigned_partitions
    ]
    assert decoded == [("t", [0, 2]), ("u", [1])]


# Upgrade


def test_upgraded_members_keep_their_assignments() -> None:
    group = upgraded()
    assert (group.epoch, group.target_epoch, group.target_ms) == (7, 7, 0)
    assert group.targets == {"a": by_id({"t": {0, 1}}), "b": by_id({"t": {2}})}
    assert group.owners == {topic_id("t"): {0: "a", 1: "a", 2: "b"}}
    assert group.state_name == "Stable"


def test_upgraded_members_stay_classic_with_their_metadata() -> None:
    member = upgraded().members["a"]
    assert (member.epoch, member.previous_epoch, member.client_id) == (7, 7, "client-a")
    assert (member.rebalance_timeout_ms, member.topics) == (60_000, frozenset({"t"}))
    assert member.assigned == {topic_id("t"): {0: 7, 1: 7}}
    assert member.classic is not None
    assert member.classic.session_timeout_ms == 10_000
    assert tuple(offer.name for offer in member.classic.supported_protocols) == ASSIGNORS


def test_a_member_that_never_synced_has_no_target() -> None:
    classic = classic_group(KNOWN, {"a": {}})
    classic.update(classic.members["a"]._replace(assignment=b""))
    assert consumer_group_of(classic, KNOWN).members["a"].assigned == {}


def test_a_group_without_a_protocol_can_be_upgraded() -> None:
    classic = classic_group(KNOWN, {"a": {}}, generation=0)
    classic.protocol = None
    assert consumer_group_of(classic, KNOWN).members["a"].topics == frozenset({"t"})


@pytest.mark.parametrize("policy", ["disabled", "downgrade", "DISABLED"])
def test_the_policy_must_allow_an_upgrade(policy: str) -> None:
    group = classic_group(KNOWN, {"a": {}})
    settings = config(group_consumer_migration_policy=policy)
    assert refused(group, settings) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    group = classic_group(KNOWN, {"a": {}, "b": {}, "c": {}})
    settings = config(group_consumer_max_size="2")
    assert refused(group, settings) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    group = classic_group(KNOWN, {"a": {}})
    group.protocol_type = "connect"
    assert refused(group) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("damaged", [b"\0", b"garbage!", b"\xff\xff\0\0"])
def test_a_damaged_assignment_stops_an_upgrade(damaged: bytes) -> None:
    group = classic_group(KNOWN, {"a": {}})
    group.update(group.members["a"]._replace(assignment=damaged))
    assert refused(group) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_damaged_subscription_stops_an_upgrade() -> None:
    group = classic_group(KNOWN, {"a": {}})
    protocols = tuple(Protocol(name, b"\0\1\0\0") for name in ASSIGNORS)
    group.update(group.members["a"]._replace(protocols=protocols))
    assert refused(group) is ErrorCode.GROUP_ID_NOT_FOUND


def test_user_data_in_assignments_stops_an_upgrade() -> None:
    group = classic_group(KNOWN, {"a": {}})
    with_user_data = assignment({"t": {0}}, KNOWN)[:-4] + b"\0\0\0\4mine"
    group.update(group.members["a"]._replace(assignment=with_user_data))
    assert refused(group) is ErrorCode.GROUP_ID_NOT_FOUND


# Downgrade


@pytest.mark.parametrize(
    ("leaving", "expected"),
    [(["x"], False), (["x", "y"], True), (["a", "x", "y"], True), (["a", "b", "x", "y"], False)],
)
def test_a_downgrade_waits_for_the_last_consumer_member(leaving: list[str], expected: bool) -> None:
    group = upgraded("x", "y")
    assert may_downgrade(group, [group.members[name] for name in leaving], config()) is expected


@pytest.mark.parametrize(
    "settings",
    [
        config(group_consumer_migration_policy="upgrade"),
        config(group_consumer_migration_policy="disabled"),
        config(group_max_size="1"),
    ],
)
def test_the_policy_and_the_size_must_allow_a_downgrade(settings: BrokerConfig) -> None:
    group = upgraded("x")
    assert not may_downgrade(group, [group.members["x"]], settings)
    assert not may_downgrade_by_replacement(group, group.members["x"], settings)


def test_only_the_replacement_of_the_last_consumer_member_downgrades() -> None:
    group = upgraded("x")
    assert may_downgrade_by_replacement(group, group.members["x"], config())
    assert not may_downgrade_by_replacement(group, group.members["a"], config())
    group = upgraded("x", "y")
    assert not may_downgrade_by_replacement(group, group.members["x"], config())


def test_the_target_becomes_the_assignment_of_remaining_members() -> None:
    group = upgraded("x")
    group.epoch = 9
    classic = classic_group_of(group, [group.members["x"]], KNOWN, NOW_MS)
    assert (classic.state, classic.generation, classic.state_since_ms) == (STABLE, 9, NOW_MS)
    assert (classic.protocol_type, classic.protocol) == ("consumer", ASSIGNORS[0])
    assert classic.leader == "a"
    assert classic.members["a"].assignment == assignment({"t": {0, 1}}, KNOWN)
    assert classic.members["b"].assignment == assignment({"t": {2}}, KNOWN)
    assert classic.members.keys() == {"a", "b"}


def test_the_assignment_has_the_version_of_the_members_subscription() -> None:
    classic = classic_group(KNOWN, {"a": {"t": {0}}})
    protocols = tuple(Protocol(name, subscription("t", version=1)) for name in ASSIGNORS)
    classic.update(classic.members["a"]._replace(protocols=protocols))
    back = classic_group_of(consumer_group_of(classic, KNOWN), [], KNOWN, NOW_MS)
    assert version_of(back.members["a"].assignment) == 1


def test_an_upgrade_and_a_downgrade_restore_the_group() -> None:
    classic = classic_group(KNOWN, {"a": {"t": {0, 1}}, "b": {"t": {2}}})
    back = classic_group_of(consumer_group_of(classic, KNOWN), [], KNOWN, NOW_MS)
    assert back.members == classic.members
    assert (back.leader, back.generation, back.protocol) == ("a", 7, ASSIGNORS[0])


def test_a_static_replacement_inherits_the_target() -> None:
    group = upgraded("x")
    old = group.members["x"]
    a = group.members["a"]
    joining = a._replace(id="x2", instance_id="i-x")
    classic = classic_group_of(group, [old], KNOWN, NOW_MS, joining)
    assert classic.static_ids == {"i-x": "x2"}
    assert classic.members["x2"].assignment == assignment({"t": {3}}, KNOWN)
