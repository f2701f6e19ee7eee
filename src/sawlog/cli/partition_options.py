"""Partitions as people write and read them: `orders`, `orders:0,2`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from sawlog.cli.exit_codes import report_each
from sawlog.cli.option_types import PARTITION, TEXT
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])


class TopicScope(NamedTuple):
    """A topic, or the partitions named of it."""

    topic: str
    indexes: tuple[int, ...] = ()

    def holds(self, partition: TopicPartition) -> bool:
        return partition.topic == self.topic and (
            not self.indexes or partition.partition in self.indexes
        )


class TopicScopeType(click.ParamType[TopicScope]):
    name = "topic[:partition,...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicScope:
        if isinstance(value, TopicScope):
            return value
        topic, colon, indexes = TEXT.convert(value, param, ctx).partition(":")
        if not topic or (colon and not indexes):
            self.fail(f"{value!r}: expected TOPIC or TOPIC:PARTITION,... (orders:0,2)", param, ctx)
        if not colon:
            return TopicScope(topic)
        pieces = indexes.split(",")
        numbers = dict.fromkeys(PARTITION(piece, param, ctx) for piece in pieces)
        return TopicScope(topic, tuple(numbers))


def topic_option(*, is_required: bool = False) -> Callable[[F], F]:
    """`--topic`, as often as wanted: the function gets them all as `scopes`."""
    return click.option(
        "--topic",
        "scopes",
        type=TopicScopeType(),
        multiple=True,
        required=is_required,
        metavar="TOPIC[:0,1]",
        help="All partitions of it, or these; repeat.",
    )


def partitions_of(cluster: Cluster, scopes: Iterable[TopicScope]) -> list[TopicPartition]:
    """All that the scopes name; NoSuchTopic where one is not there."""
    found: set[TopicPartition] = set()
    for scope in scopes:
        there = cluster.topic(scope.topic).partitions
        for index in scope.indexes:
            if index not in there:
                raise NoSuchTopic(
                    f"the topic {scope.topic!r} has the partitions 0 to {len(there) - 1},"
                    f" not {index}"
                )
        found.update(partition_of(scope.topic, index) for index in scope.indexes or there)
    return sorted(found)


def show_partitions(partitions: Iterable[TopicPartition] | None) -> str:
    """`orders:0,2;refunds:1`, each as an option takes it; a dash where there are none, and a
    question mark where they are not known.
    """
    if partitions is None:
        return "?"
    topics = group_by_topic(partitions)
    return ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in topics.items()) or "-"


def report_partitions(refused: Mapping[TopicPartition, KafkaError]) -> None:
    """A line for each thing that is wrong, whichever partitions it is wrong with; then the exit
    code is 1.
    """
    alike: dict[tuple[ErrorCode, str], list[TopicPartition]] = defaultdict(list)
    for partition, error in refused.items():
        alike[error.code, error.message].append(partition)
    told = {show_partitions(where): KafkaError(*what) for what, where in alike.items()}
    report_each((), told, "")
