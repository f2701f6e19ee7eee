"""A classic group as the offset and admin requests see it."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_states import Event, State
from sawlog.groups.group import GroupType
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from support.groups.classic_group import COMMIT_MS, RANGE, ClassicWorld


def subscription(*topics: str, version: int = 3) -> bytes:
    return version.to_bytes(2, "big") + encode(ConsumerProtocolSubscription(list(topics)), version)


def code_of_commit(
    group: ClassicGroup, member: str, generation: int, instance: str | None = None
) -> ErrorCode:
    try:
        group.check_commit(member, instance, generation, 9)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def group_with(world: ClassicWorld, *metadata: bytes, protocol_type: str = "consumer") -> None:
    """Create a stable group whose members have this metadata."""
    joins = [
        world.join(version=3, protocols=(("range", said),), protocol_type=protocol_type)
        for said in metadata
    ]
    world.pass_ms(COMMIT_MS)
    world.synchronise(joins)


def test_an_empty_group_accepts_commits_without_a_member_id() -> None:
    group = ClassicGroup("g", 1)
    assert group.type is GroupType.CLASSIC
    assert code_of_commit(group, "", -1) is ErrorCode.NONE
    assert code_of_commit(group, "m", -1) is ErrorCode.NONE
    assert code_of_commit(group, "m", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_in_their_generation() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    group = world.group()
    assert code_of_commit(group, first, 1) is ErrorCode.NONE
    assert code_of_commit(group, first, 0) is ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(group, first, -1) is ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(group, "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(group, first, 1, "i") is ErrorCode.UNKNOWN_MEMBER_ID
    waiting = world.join(first)
    assert not waiting.is_answered
    assert code_of_commit(world.group(), second, 1) is ErrorCode.NONE
    world.join(second)
    assert code_of_commit(world.group(), second, 1) is ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(world.group(), second, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_dead_group_refuses_everything() -> None:
    group = ClassicGroup("g", 1)
    group.move(Event.UNLOADED, 2)
    assert code_of_commit(group, "", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (
        group.check_delete,
        group.check_offset_delete,
        lambda: group.check_fetch(None, -1),
    ):
        with pytest.raises(KafkaError) as refused:
            check()
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_an_empty_group_is_deleted() -> None:
    world = ClassicWorld()
    (only,) = world.stable()
    with pytest.raises(KafkaError) as refused:
        world.group().check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    world.leave(only)
    world.group().check_delete()
    (tombstone,) = world.group().tombstones()
    assert tombstone.value is None


def test_offsets_of_a_non_empty_group_are_deleted_only_if_its_topics_are_known() -> None:
    world = ClassicWorld()
    group_with(world, b"x", protocol_type="connect")
    with pytest.raises(KafkaError) as refused:
        world.group().check_offset_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    consumers = ClassicWorld()
    group_with(consumers, subscription("t"))
    consumers.group().check_offset_delete()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_subscribed_topics_are_those_of_all_members(version: int) -> None:
    world = ClassicWorld()
    group_with(world, subscription("a", "b", version=version), subscription("b", "c"))
    group = world.group()
    assert [group.is_subscribed_to(topic) for topic in "abcd"] == [True, True, True, False]
    world.restart()
    assert [world.group().is_subscribed_to(topic) for topic in "abcd"] == [True, True, True, False]


@pytest.mark.parametrize(
    "garbage", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff\0"]
)
def test_with_malformed_subscriptions_every_topic_counts_as_subscribed(garbage: bytes) -> None:
    world = ClassicWorld()
    group_with(world, subscription("a"), garbage)
    assert world.group().is_subscribed_to("any")
    assert world.group().offsets_unused_since(5) is None
    assert world.group().describe().members[1].member_metadata == garbage


def test_a_group_of_another_protocol_type_subscribes_to_no_topic() -> None:
    world = ClassicWorld()
    group_with(world, subscription("a"), protocol_type="connect")
    assert not world.group().is_subscribed_to("a")


def test_an_empty_group_of_consumers_subscribes_to_no_topic() -> None:
    world = ClassicWorld()
    group_with(world, subscription("a"))
    world.leave(*world.group().members)
    assert not world.group().is_subscribed_to("a")


@pytest.mark.parametrize(
    ("state", "protocol_type", "since_ms", "expected"),
    [
        (State.EMPTY, "", 100, 5),  # a simple group
        (State.EMPTY, "consumer", 100, 100),
        (State.EMPTY, "consumer", None, 5),
        (State.EMPTY, "connect", 100, 100),
        (State.PREPARING_REBALANCE, "consumer", 100, None),
        (State.COMPLETING_REBALANCE, "consumer", 100, None),
        (State.STABLE, "connect", 100, None),
    ],
)
def test_the_start_of_an_offsets_retention_depends_on_the_group(
    state: State, protocol_type: str, since_ms: int | None, expected: int | None
) -> None:
    group = ClassicGroup("g", since_ms)
    group.state = state
    group.protocol_type = protocol_type
    assert group.offsets_unused_since(5) == expected


def test_offsets_of_unsubscribed_topics_expire_in_a_stable_group() -> None:
    world = ClassicWorld()
    group_with(world, subscription("a"))
    assert world.group().offsets_unused_since(5) == 5


def test_a_group_is_described_with_metadata_only_while_it_is_stable() -> None:
    world = ClassicWorld()
    member, other = world.stable(2)
    described = world.group().describe()
    assert (
        described.group_id,
        described.group_state,
        described.protocol_type,
        described.protocol_data,
    ) == (
        "g",
        "Stable",
        "consumer",
        "range",
    )
    assert [(one.member_id, one.client_host) for one in described.members] == [
        (member, "/127.0.0.1"),
        (other, "/127.0.0.1"),
    ]
    assert (described.members[0].member_metadata, described.members[0].member_assignment) == (
        b"r",
        member.encode(),
    )
    world.join(member)
    described = world.group().describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert described.members[0].member_metadata == b""
    assert described.members[0].member_assignment == member.encode()


def test_protocol_counts_drop_protocols_without_members() -> None:
    world = ClassicWorld()
    (member,) = world.stable()
    for number in range(5):
        world.synchronise([world.join(member, protocols=[*RANGE, (f"p{number}", b"")])])
    assert world.group().protocol_counts == {"range": 1, "p4": 1}
