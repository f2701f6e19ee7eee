"""Groups on a running broker: Sawlog, and Apache Kafka if Java is installed."""

from collections.abc import Iterator

import pytest

from sawlog.client import MemberToRemove
from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.lag import LagTrend, forecast, measure, total_forecast
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.core.errors import ErrorCode, KafkaError
from support.client.group_members import ClassicMember, ConsumerMember
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, SharedBrokers, unique


@pytest.fixture(scope="module", params=EITHER_BROKER)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    return shared_brokers.get(request.param, QUICK_GROUPS).bootstrap


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> GroupAdmin:
    return GroupAdmin(cluster)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with three partitions of ten records each."""
    name = unique("topic-")
    assert Admin(cluster).create_topics([NewTopic(name, partitions=3)]) == {}
    produce(cluster, name, 10)
    return name


@pytest.fixture
def group() -> str:
    return unique("group-")


def produce(cluster: Cluster, topic: str, count: int) -> None:
    with Producer(cluster) as producer:
        for number in range(count * 3):
            producer.send(topic, b"%d" % number, partition=number % 3)


def codes(refused: dict[object, KafkaError]) -> dict[str, ErrorCode]:
    return {str(key): error.code for key, error in refused.items()}


def test_offsets_are_committed_fetched_and_deleted(
    admin: GroupAdmin, topic: str, group: str
) -> None:
    first, second = partition_of(topic, 0), partition_of(topic, 1)
    assert admin.committed_offsets([group]) == ({group: {}}, {})
    assert admin.commit_offsets(group, {first: 4, second: 5}) == {}
    assert admin.commit_offsets(group, {second: 6}) == {}
    found = admin.committed_offsets([group])[0][group]
    assert {each: committed.offset for each, committed in found.items()} == {first: 4, second: 6}
    assert admin.delete_offsets(group, [first]) == {}
    assert list(admin.committed_offsets([group])[0][group]) == [second]


def test_commit_errors_are_by_partition(admin: GroupAdmin, topic: str, group: str) -> None:
    there, not_there = partition_of(topic, 2), partition_of(topic, 3)
    refused = admin.commit_offsets(group, {there: 4, not_there: 5})
    assert codes(refused) == {str(not_there): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert list(admin.committed_offsets([group])[0][group]) == [there]


def test_a_group_with_offsets_only_is_listed_described_and_deleted(
    admin: GroupAdmin, topic: str, group: str
) -> None:
    admin.commit_offsets(group, {partition_of(topic, 0): 4})
    (listed,) = [each for each in admin.list_groups() if each.id == group]
    assert (listed.type, listed.state, listed.protocol_type) == ("classic", "Empty", "")
    described = admin.describe_groups([group])[0][group]
    assert (described.type, described.state, described.members) == ("classic", "Empty", [])
    assert described.is_idle
    missing = f"{group}-not-there"
    assert codes(admin.describe_groups([missing])[1]) == {missing: ErrorCode.GROUP_ID_NOT_FOUND}
    assert codes(admin.delete_groups([group, missing])) == {missing: ErrorCode.GROUP_ID_NOT_FOUND}
    assert group not in [each.id for each in admin.list_groups()]
    with pytest.raises(KafkaError) as raised:
        admin.delete_offsets(group, [partition_of(topic, 0)])
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_group_is_described_with_its_members(
    admin: GroupAdmin, bootstrap: str, topic: str, group: str
) -> None:
    with ClassicMember(bootstrap, group, {topic: [2, 0]}, instance_id="one") as member:
        described = admin.describe_groups([group])[0][group]
        assert (described.type, described.state) == ("classic", "Stable")
        assert (described.protocol_type, described.assignor) == ("consumer", "range")
        assert str(described.coordinator.address) == bootstrap
        (found,) = described.members
        assert (found.id, found.instance_id) == (member.id, "one")
        assert (found.client_id, found.host) == ("classic-client", "/127.0.0.1")
        assert found.assigned == (partition_of(topic, 0), partition_of(topic, 2))
        assert (found.target, found.epoch, described.epoch) == (None, None, None)
    assert admin.describe_groups([group])[0][group].is_idle


def test_a_consumer_group_is_described_with_epochs_and_targets(
    admin: GroupAdmin, bootstrap: str, topic: str, group: str
) -> None:
    with ConsumerMember(bootstrap, group, [topic]) as member:
        described = admin.describe_groups([group])[0][group]
        assert (described.type, described.state) == ("consumer", "Stable")
        assert (described.protocol_type, described.assignor) == ("consumer", "uniform")
        assert described.epoch == described.target_epoch == member.epoch
        (found,) = described.members
        assert (found.id, found.instance_id, found.epoch) == (member.id, None, member.epoch)
        assert (found.client_id, found.host) == ("consumer-client", "/127.0.0.1")
        assert found.assigned == found.target == tuple(partition_of(topic, n) for n in range(3))
        with ConsumerMember(bootstrap, group, [topic], instance_id="two", waits=False):
            described = admin.describe_groups([group])[0][group]
            assert sorted(each.instance_id or "" for each in described.members) == ["", "two"]
            assert described.state in ("Assigning", "Reconciling")
            assert (described.epoch or 0) > member.epoch


def test_groups_are_listed_by_state_and_type(
    admin: GroupAdmin, bootstrap: str, topic: str, group: str
) -> None:
    def listed(**filters: list[str]) -> list[str]:
        names = [each.id for each in admin.list_groups(**filters)]
        return [name.removeprefix(group) for name in names if name.startswith(group)]

    admin.commit_offsets(f"{group}-idle", {partition_of(topic, 0): 1})
    with (
        ClassicMember(bootstrap, f"{group}-classic", {topic: [0]}),
        ConsumerMember(bootstrap, f"{group}-consumer", [topic]),
    ):
        assert listed() == ["-classic", "-consumer", "-idle"]
        assert listed(types=["consumer"]) == ["-consumer"]
        assert listed(types=["classic"]) == ["-classic", "-idle"]
        assert listed(states=["Stable"]) == ["-classic", "-consumer"]
        assert listed(states=["Empty", "Stable"], types=["classic"]) == ["-classic", "-idle"]
        assert listed(states=["Dead"]) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_deleted(
    admin: GroupAdmin, bootstrap: str, topic: str, group: str, protocol: str
) -> None:
    where = partition_of(topic, 0)
    admin.commit_offsets(group, {where: 3})
    member = (
        ClassicMember(bootstrap, group, {topic: [0]})
        if protocol == "classic"
        else ConsumerMember(bootstrap, group, [topic])
    )
    with member:
        assert codes(admin.delete_groups([group])) == {group: ErrorCode.NON_EMPTY_GROUP}
        refused = admin.commit_offsets(group, {where: 9})
        assert codes(refused) == {str(where): ErrorCode.UNKNOWN_MEMBER_ID}
        refused = admin.delete_offsets(group, [where])
        assert codes(refused) == {str(where): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert admin.committed_offsets([group])[0][group][where].offset == 3
    assert admin.delete_groups([group]) == {}


def test_lag_is_measured_for_committed_and_assigned_partitions(
    cluster: Cluster, admin: GroupAdmin, bootstrap: str, topic: str, group: str
) -> None:
    first, second, third = (partition_of(topic, index) for index in range(3))
    admin.commit_offsets(group, {first: 4, third: 10})
    with ClassicMember(bootstrap, group, {topic: [0, 1]}) as member:
        measured = measure(cluster, admin, [group, "not-there"])
    (before, refusals) = measured
    positions = before[group].positions
    assert codes(refusals) == {"not-there": ErrorCode.GROUP_ID_NOT_FOUND}
    assert {each: at.lag for each, at in positions.items()} == {first: 6, second: None, third: 0}
    owners = {each: at.member.id if at.member else None for each, at in positions.items()}
    assert owners == {first: member.id, second: member.id, third: None}
    produce(cluster, topic, 2)
    admin.commit_offsets(group, {first: 9})
    after = measure(cluster, admin, [group])[0][group]
    found = forecast(positions[first], after.positions[first], 10)
    assert (found.lag, found.consumed_per_s, found.produced_per_s) == (3, 0.5, 0.2)
    total = total_forecast(positions, after.positions, 10)
    assert (total.lag, total.trend) == (5, LagTrend.CATCHING_UP)


def test_offsets_of_a_deleted_topic_do_not_affect_the_others(
    cluster: Cluster, admin: GroupAdmin, topic: str, group: str
) -> None:
    doomed = f"{topic}-doomed"
    assert Admin(cluster).create_topics([NewTopic(doomed, partitions=1)]) == {}
    admin.commit_offsets(group, {partition_of(topic, 0): 1, partition_of(doomed, 0): 0})
    assert Admin(cluster).delete_topics([doomed]) == {}
    found, refusals = measure(cluster, admin, [group])
    assert refusals == {}
    assert found[group].positions[partition_of(topic, 0)].lag == 9


def test_removed_members_leave_and_the_others_stay(
    bootstrap: str, admin: GroupAdmin, topic: str, group: str
) -> None:
    with (
        ConsumerMember(bootstrap, group, [topic]).cluster,
        ConsumerMember(bootstrap, group, [topic], instance_id="one", waits=False).cluster,
        ConsumerMember(bootstrap, group, [topic], member_id="stays", waits=False),
    ):
        found = {
            each.instance_id: each.id
            for each in admin.describe_groups([group])[0][group].members
            if each.id != "stays"
        }
        wrong = MemberToRemove("stays", "one")
        leavers = [
            MemberToRemove("nobody"),
            MemberToRemove(found[None]),
            wrong,
            MemberToRemove(instance_id="one"),
        ]
        refused = admin.remove_members(group, leavers, "it hangs")
        assert {leaver: error.code for leaver, error in refused.items()} == {
            MemberToRemove("nobody"): ErrorCode.UNKNOWN_MEMBER_ID,
            wrong: ErrorCode.FENCED_INSTANCE_ID,
        }
        assert "no member 'nobody'" in refused[MemberToRemove("nobody")].message
        left = admin.describe_groups([group])[0][group].members
        assert [member.id for member in left] == ["stays"]
