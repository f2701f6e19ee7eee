"""Options that name a cluster and its partitions: `--bootstrap`, `--timeout` and `--topic`."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import PARTITION, SECONDS, TEXT
from sawlog.client.net.addresses import Address, parse_addresses
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class BrokerAddresses(click.ParamType[list[Address]]):
    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Address]:
        try:
            return parse_addresses(TEXT.convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def with_cluster(command: Command) -> Command:
    """Pass a `Cluster`, built from `--bootstrap` and `--timeout`, to a command as `cluster`."""

    @click.option(
        "-b",
        "--bootstrap",
        type=BrokerAddresses(),
        default=DEFAULT_BOOTSTRAP,
        envvar="SAWLOG_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Brokers to connect to first; the others are discovered.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=SECONDS,
        default=30,
        show_default=True,
        metavar="SECONDS",
        help="How long to retry before failing.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, bootstrap: list[Address], timeout_s: float, **kwargs: Any) -> Any:
        timeout_ms = timeout_s * 1_000
        with Cluster(
            [str(address) for address in bootstrap],
            client_id="sawlog-cli",
            timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        ) as cluster:
            return command(*args, cluster=cluster, **kwargs)

    return wrapped  # type: ignore[return-value]


class TopicScope(NamedTuple):
    """All partitions of a topic, or only those in `indexes`."""

    topic: str
    indexes: tuple[int, ...] = ()

    def covers(self, partition: TopicPartition) -> bool:
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
        numbers = dict.fromkeys(PARTITION(index, param, ctx) for index in indexes.split(","))
        return TopicScope(topic, tuple(numbers))


def topic_option(*, is_required: bool = False) -> Callable[[Command], Command]:
    """Add the repeatable option `--topic`, passed to the command as `scopes`."""
    return click.option(
        "--topic",
        "scopes",
        type=TopicScopeType(),
        multiple=True,
        required=is_required,
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions. May be repeated.",
    )


def partitions_of(cluster: Cluster, scopes: Iterable[TopicScope]) -> list[TopicPartition]:
    """Return the partitions of the scopes, sorted; raise NoSuchTopic if one does not exist."""
    found: set[TopicPartition] = set()
    for scope in scopes:
        existing = cluster.topic(scope.topic).partitions
        for index in scope.indexes:
            if index not in existing:
                raise NoSuchTopic(
                    f"the topic {scope.topic!r} has the partitions 0 to {len(existing) - 1},"
                    f" not {index}"
                )
        found.update(partition_of(scope.topic, index) for index in scope.indexes or existing)
    return sorted(found)


def show_partitions(partitions: Iterable[TopicPartition] | None) -> str:
    """Format partitions as `--topic` takes them: `orders:0,2;refunds:1`.

    No partitions are shown as `-`, unknown partitions (None) as `?`.
    """
    if partitions is None:
        return "?"
    topics = group_by_topic(partitions)
    return ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in topics.items()) or "-"


def report_partitions(refused: Mapping[TopicPartition, KafkaError]) -> None:
    """Print one line per distinct error with its partitions; exit with FAILED if there is one."""
    by_error: dict[tuple[ErrorCode, str], list[TopicPartition]] = defaultdict(list)
    for partition, error in refused.items():
        by_error[error.code, error.message].append(partition)
    refusals = {show_partitions(where): KafkaError(*error) for error, where in by_error.items()}
    report_each((), refusals, "")
