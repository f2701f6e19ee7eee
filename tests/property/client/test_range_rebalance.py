"""Members of a group that compute ranges by themselves: they agree, and they converge."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sawlog.client.zookeeper_consumer.group_nodes import Registration
from sawlog.client.zookeeper_consumer.range_rebalance import (
    GroupView,
    assignment,
    plan_rebalance,
)
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition

NAMES = st.text("abz019-", min_size=1, max_size=3)
TOPICS = ("logs", "metrics")
REGISTRATIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), min_size=1).map(
    Registration
)
VIEWS = st.builds(
    GroupView,
    st.dictionaries(NAMES, REGISTRATIONS, max_size=5),
    st.fixed_dictionaries({topic: st.integers(0, 12).map(range) for topic in TOPICS}),
)


def all_partitions(view: GroupView) -> set[TopicPartition]:
    return {
        TopicPartition(TopicName(topic), PartitionIndex(index))
        for topic, indexes in view.partitions.items()
        if any(topic in registration.threads for registration in view.registrations.values())
        for index in indexes
    }


@given(VIEWS)
def test_every_partition_goes_to_one_member_and_shares_differ_by_at_most_one(
    view: GroupView,
) -> None:
    shares: dict[tuple[str, str], int] = {}
    taken: list[TopicPartition] = []
    for member, registration in view.registrations.items():
        own = assignment(view, member)
        taken += own
        for topic, count in registration.threads.items():
            for number in range(count):
                shares[topic, f"{member}-{number}"] = 0
        for partition, thread in own.items():
            shares[partition.topic, thread] += 1
    assert len(taken) == len(set(taken))
    assert set(taken) == all_partitions(view)
    for topic in TOPICS:
        sizes = [size for (of, _), size in shares.items() if of == topic]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(VIEWS, st.randoms(use_true_random=False))
def test_the_order_in_which_members_were_read_does_not_matter(
    view: GroupView, random: Random
) -> None:
    shuffled = list(view.registrations.items())
    random.shuffle(shuffled)
    other = GroupView(dict(shuffled), view.partitions)
    for member in view.registrations:
        assert assignment(view, member) == assignment(other, member)


class Group:
    """Owner nodes as ZooKeeper keeps them: a create fails if the node exists."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}

    def rebalance(self, member: str, view: GroupView) -> None:
        owned = frozenset(each for each, owner in self.owners.items() if owner == member)
        plan = plan_rebalance(owned, assignment(view, member))
        for partition in plan.release:
            del self.owners[partition]
        for partition in plan.claim:
            self.owners.setdefault(partition, member)


@given(st.lists(VIEWS, min_size=1, max_size=4), st.data())
def test_members_with_old_views_converge_once_each_has_read_the_last_one_twice(
    views: list[GroupView], data: st.DataObject
) -> None:
    """Twice: in the first round a partition may still have its former owner's node."""
    group = Group()
    for number, view in enumerate(views):
        for member in set(group.owners.values()) - view.registrations.keys():
            for partition in [each for each, owner in group.owners.items() if owner == member]:
                del group.owners[partition]  # the session of a former member has ended
        for member in data.draw(st.lists(st.sampled_from(sorted(view.registrations) or ["x"]))):
            if member in view.registrations:
                seen = views[data.draw(st.integers(0, number))]
                group.rebalance(member, seen)
    last = views[-1]
    for _ in range(2):
        for member in data.draw(st.permutations(sorted(last.registrations))):
            group.rebalance(member, last)
    assert group.owners.keys() == all_partitions(last)
    for member in last.registrations:
        own = {each for each, owner in group.owners.items() if owner == member}
        assert own == assignment(last, member).keys()
