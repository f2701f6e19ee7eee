"""The rebalance algorithm of the Kafka paper, without IO.

Every member computes the assignment by itself: the sorted partitions of a topic are cut into one
range for each of the topic's sorted threads, and the i-th thread takes the i-th range. Members that
read the same nodes agree; one that read older nodes finds that a partition has an owner node, and
tries again. With five partitions, thread a-0 takes 0 to 2 and b-0 takes 3 and 4.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sawlog.client.consumer.membership.classic_protocol import matching_topics
from sawlog.client.zookeeper_consumer.group_nodes import PatternKind, Registration
from sawlog.core.errors import KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that no pattern matches; a member that names one gets it."""


class Thread(NamedTuple):
    """A share of the partitions of a topic. A member with four message streams has four."""

    thread_id: str
    consumer: str


class GroupView(NamedTuple):
    """What a member has read: the registrations of all members, and the partitions of topics."""

    registrations: Mapping[str, Registration]
    partitions: Mapping[str, Sequence[int]]


class RebalancePlan(NamedTuple):
    release: frozenset[TopicPartition]
    claim: Mapping[TopicPartition, str]  # with the id of the owning thread


def subscribed_threads(registration: Registration, topics: Iterable[str]) -> dict[str, int]:
    """Return the topics among `topics` that a member reads, with its number of threads.

    A pattern that RE2 cannot compile, of a member that is not Sawlog's, matches nothing.
    """
    if registration.kind is PatternKind.STATIC:
        existing = frozenset(topics)
        return {topic: n for topic, n in registration.threads.items() if topic in existing}
    candidates = frozenset(topics) - INTERNAL_TOPICS
    found: dict[str, int] = {}
    for pattern, count in sorted(registration.threads.items()):
        try:
            matched = matching_topics(pattern, candidates)
        except KafkaError:
            continue
        is_white = registration.kind is PatternKind.WHITE_LIST
        found.update(dict.fromkeys(sorted(matched if is_white else candidates - matched), count))
    return found


def cut_ranges(partitions: Sequence[int], threads: Sequence[str]) -> dict[str, list[int]]:
    """Cut sorted partitions into one range per sorted thread; the first ranges have one more."""
    ordered, owners = sorted(partitions), sorted(threads)
    if not owners:
        return {}
    size, larger = divmod(len(ordered), len(owners))
    ranges = {}
    start = 0
    for number, owner in enumerate(owners):
        end = start + size + (1 if number < larger else 0)
        ranges[owner] = ordered[start:end]
        start = end
    return ranges


def assignment(view: GroupView, consumer: str) -> dict[TopicPartition, str]:
    """Return the partitions that `consumer` should own, with the id of the owning thread."""
    threads: dict[str, list[Thread]] = {}
    for member, registration in sorted(view.registrations.items()):
        for topic, count in subscribed_threads(registration, view.partitions).items():
            own = [Thread(f"{member}-{number}", member) for number in range(count)]
            threads.setdefault(topic, []).extend(own)
    wanted: dict[TopicPartition, str] = {}
    for topic, members in sorted(threads.items()):
        ranges = cut_ranges(view.partitions[topic], [thread.thread_id for thread in members])
        for thread in members:
            if thread.consumer == consumer:
                for index in ranges[thread.thread_id]:
                    partition = TopicPartition(TopicName(topic), PartitionIndex(index))
                    wanted[partition] = thread.thread_id
    return wanted


def plan_rebalance(
    owned: frozenset[TopicPartition], wanted: Mapping[TopicPartition, str]
) -> RebalancePlan:
    """Return what to release and what to claim; partitions that stay are not interrupted.

    The paper's consumer releases everything and claims again; that only adds a pause.
    """
    return RebalancePlan(
        release=owned - wanted.keys(),
        claim={each: thread for each, thread in sorted(wanted.items()) if each not in owned},
    )
