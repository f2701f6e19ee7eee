"""How the tables of a file are: from their logs, and the ends of their topics from the brokers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sawlog.client.cluster import Cluster
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.leaders import partition_of
from sawlog.client.offsets import LATEST, list_offsets
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.config import LandedTable, QueryTable
from sawlog.pipeline.landing.failures import classify
from sawlog.pipeline.tables.status import status
from sawlog.pipeline.tables.table import ADDING, Table

_RECENT_MS = 5 * 60 * 1_000
_MOST_VERSIONS = 200


@dataclass(frozen=True, slots=True)
class TableStatus:
    """None is what is not known: the table is not there yet, or no broker answers."""

    table: str
    topic: str | None
    version: int | None = None
    offset: int | None = None  # of all partitions together
    lag: int | None = None
    rows: int | None = None
    rows_per_s: float | None = None  # while it landed, in the last five minutes
    committed_ms: int | None = None
    files: int | None = None
    small_files: int | None = None
    size: int | None = None
    dead_letters: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None


def status_of(
    config: LandedTable | QueryTable, ends: Mapping[TopicPartition, int] | None
) -> TableStatus:
    """By the table's log; `ends` are where its topic ends, None where nobody knows."""
    landed = config if isinstance(config, LandedTable) else None
    topic = None if landed is None else landed.topic
    if not Table.exists(config.path):
        return TableStatus(config.name, topic, ends=ends)
    table = Table.open(config.path)
    numbers = status(table, "" if landed is None else landed.group)
    offsets = {tp: at for tp, at in numbers.offsets.items() if tp.topic == topic}
    return TableStatus(
        table=config.name,
        topic=topic,
        version=numbers.version,
        offset=sum(offsets.values()) if landed else None,
        lag=None if ends is None else _lag(offsets, ends),
        rows=numbers.rows,
        rows_per_s=recent_rate(table),
        committed_ms=numbers.committed_ms,
        files=numbers.files,
        small_files=numbers.small_files,
        size=numbers.size,
        dead_letters=None if landed is None else _rows(landed.dead_path),
        offsets=offsets,
        ends=ends,
    )


class TopicEnds:
    """Where topics end, by the brokers. Who does not answer is asked once, and told of once."""

    def __init__(self, cluster: Cluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._is_silent = False

    def of(self, config: LandedTable) -> dict[TopicPartition, int] | None:
        """None where nobody answers, or there is no such topic."""
        if self._is_silent:
            return None
        try:
            return self._ask(config)
        except UNANSWERED as error:
            self._is_silent = True
            self._tell(f"how far behind tables are is not known: {error}")
        except (KafkaError, ClientError) as error:
            self._tell(f"{config.name}: {classify(error).message}")
        return None

    def _ask(self, config: LandedTable) -> dict[TopicPartition, int]:
        indexes = self._cluster.topic(config.topic).partitions
        wanted = dict.fromkeys((partition_of(config.topic, index) for index in indexes), LATEST)
        found = list_offsets(self._cluster, wanted, read_committed=config.read_committed)
        return {partition: told.offset for partition, told in sorted(found.items())}


def recent_rate(table: Table) -> float | None:
    """Rows a second between the first and the last of the newest versions that brought rows; None
    where there are not two of them within a few minutes. New columns bring none, nor do merged
    files and those that were written again without some rows.
    """
    newest = table.state.committed_ms
    if newest is None:
        return None
    commits: list[tuple[int, int]] = []  # time and rows, newest first
    for version in range(table.version, max(0, table.version - _MOST_VERSIONS), -1):
        actions = table.log.entry(version) or []
        told = next((action["commitInfo"] for action in actions if "commitInfo" in action), None)
        if told is None or newest - told["timestamp"] > _RECENT_MS:
            break
        count = sum(_count(action) for action in actions)
        if count and told.get("operation") == ADDING:
            commits.append((told["timestamp"], count))
    if len(commits) < 2 or commits[0][0] <= commits[-1][0]:
        return None
    rows = sum(count for _, count in commits[:-1])  # how long the first ones took is not known
    return rows * 1_000 / (commits[0][0] - commits[-1][0])


def _count(action: Mapping[str, object]) -> int:
    body = action.get("add")
    if not isinstance(body, dict) or not body.get("dataChange"):
        return 0
    return int(json.loads(body.get("stats") or "{}").get("numRecords", 0))


def _lag(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())


def _rows(path: str) -> int | None:
    if not Table.exists(path):
        return None
    return status(Table.open(path), "").rows
