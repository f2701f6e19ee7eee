"""Creation, deletion and description of consumer groups."""

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.group import GroupType
from sawlog.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from sawlog.protocol.messages.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from sawlog.protocol.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
)
from sawlog.protocol.messages.delete_groups_request import DeleteGroupsRequest
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.groups.consumer_group import Consumer, Groups, settle, shares

NAMED_COMMIT = 9


def commit(groups: Groups, offset: int, member_id: str = "", epoch: int = -1) -> int:
    """Commit an offset of t-0 and return the error code."""
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(0, committed_offset=offset)]
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic]
    )
    return int(groups.ask(request, NAMED_COMMIT).topics[0].partitions[0].error_code)


# Creation and deletion


def test_a_simple_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    groups = Groups()
    groups.make(t=1)
    assert commit(groups, 7) == 0
    assert groups.group_machine.groups["g"].type is GroupType.CLASSIC
    a = Consumer(groups, "a", "t")
    assert a.join() == 0
    assert groups.group_machine.groups["g"].type is GroupType.CONSUMER
    groups.restart()
    assert isinstance(groups.group_machine.groups["g"], ConsumerGroup)
    assert a.beat() == 0
    committed = groups.group_machine.offsets.get("g", "t", 0)
    assert committed is not None
    assert committed.offset == 7


def test_an_empty_consumer_group_accepts_members_in_higher_epochs() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    a.leave()
    assert (groups.state(), groups.describe().group_epoch) == ("Empty", 3)
    b = Consumer(groups, "b", "t")
    b.join()
    assert (b.epoch, shares(b)) == (4, [[("t", 0)]])


def test_a_deleted_group_starts_again_at_its_first_epoch() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    assert groups.ask(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert groups.ask(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    groups.restart()
    assert groups.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    a.join()
    assert a.epoch == 2


def test_partition_metadata_of_older_brokers_is_removed() -> None:
    groups = Groups()
    groups.make(t=1)
    a = Consumer(groups, "a", "t")
    a.join()
    old = Entry(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())
    runtime = next(iter(groups.machine.broker.groups.runtimes.values()))
    runtime.run(lambda: Plan(entries=[old]), lambda _: None, lambda _: None)
    groups.restart()
    assert groups.group().has_partition_metadata
    a.beat()
    assert not groups.group().has_partition_metadata


# Offsets of members


def test_members_commit_in_their_epoch_or_an_older_one_for_kept_partitions() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t"), Consumer(groups, "b", "t")
    a.join()
    old = a.epoch
    b.join()
    settle([a, b])
    assert ("t", 0) in a.reads
    assert commit(groups, 1, "a", a.epoch) == 0
    assert commit(groups, 2, "a", old) == 0, "it has had the partition since then"
    assert commit(groups, 3, "b", b.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(groups, 3, "a", a.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(groups, 3, "x", a.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(groups, 3) == ErrorCode.UNKNOWN_MEMBER_ID


# Descriptions


def test_a_description_has_current_and_target_assignments() -> None:
    groups = Groups()
    groups.make(t=2)
    a = Consumer(groups, "a", "t", instance_id="i", rack_id="r")
    b = Consumer(groups, "b", "t")
    a.join()
    b.join()
    a.beat()
    described = groups.describe()
    assert described.group_state == "Reconciling"
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.assignor_name == "uniform"
    first, second = sorted(described.members, key=lambda member: member.member_id)
    assert (first.instance_id, first.rack_id, second.instance_id) == ("i", "r", None)
    assert (first.client_id, first.client_host) == ("simulation", "/client")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["t"], "")
    assert first.assignment.topic_partitions[0].topic_name == "t"
    assert first.assignment.topic_partitions[0].partitions == [0, 1], "until it has given one up"
    assert first.target_assignment.topic_partitions[0].partitions == [0]
    assert second.assignment.topic_partitions == []
    assert second.target_assignment.topic_partitions[0].partitions == [1]
    assert {first.member_type, second.member_type} == {1}
    assert groups.describe(version=0).members[0].member_type == -1


def test_many_groups_are_described_at_once_each_with_its_own_error() -> None:
    groups = Groups()
    groups.join("a")
    answer = groups.ask(
        ConsumerGroupDescribeRequest(["g", "", "none"], include_authorized_operations=True)
    )
    assert [group.group_id for group in answer.groups] == ["g", "", "none"]
    assert [group.error_code for group in answer.groups] == [
        0,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert [group.authorized_operations > 0 for group in answer.groups] == [True, False, False]
