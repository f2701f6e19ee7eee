"""A stream under Spark's protocol: repeated calls, repeated batches, restarts."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.client.net.cluster import NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets
from sawlog.pipeline.source.source_options import read_source_options
from sawlog.pipeline.source.topic_stream import DataLost, Stream

A, B = partition_of("logs", 0), partition_of("logs", 1)
REQUIRED = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "logs"}


class FakeTopics:
    """Partitions with a first and an end offset, which a test changes."""

    def __init__(self, **ends: int) -> None:
        self.ends: Offsets = {partition_of("logs", int(name[1:])): at for name, at in ends.items()}
        self.firsts: Offsets = {}
        self.uncommitted: Offsets = {}

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        return sorted(self.ends)

    def invalidate(self) -> None:
        pass

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {partition: self.firsts.get(partition, 0) for partition in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {partition: self.ends[partition] for partition in partitions}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.latest(partitions) | self.uncommitted


class World:
    """A stream and its surroundings; `again` is another driver on the same topics."""

    def __init__(self, topics: FakeTopics, **options: str) -> None:
        self.topics = topics
        self.options = options
        self.committed: list[Offsets] = []
        self.now_ms = 0.0
        self.slept_ms: list[float] = []
        self.again()

    def again(self) -> None:
        self.stream = Stream(
            self.topics,
            read_source_options(REQUIRED | self.options, streaming=True),
            resolve_start=lambda: self.topics.latest(self.topics.partitions()),
            group_progress=self,
            monotonic_ms=lambda: self.now_ms,
            sleep_ms=self.slept_ms.append,
        )

    def commit(self, offsets: Offsets) -> bool:
        self.committed.append(offsets)
        return True

    def latest(self, start: dict[str, Any], **how: bool) -> dict[str, Any]:
        return through_spark(self.stream.latest(start, **how))

    def initial(self) -> dict[str, Any]:
        return through_spark(self.stream.initial())


def through_spark(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value))  # type: ignore[no-any-return]


def test_latest_is_resolved_once() -> None:
    world = World(FakeTopics(p0=5))
    first = world.initial()
    world.topics.ends[A] = 9
    assert world.initial() == first
    end = world.latest(first)
    assert world.stream.ranges(first, end) == [OffsetRange(A, 5, 9)]


def test_a_repeated_first_batch_reads_the_same_offsets() -> None:
    world = World(FakeTopics(p0=5, p1=0))
    start = world.initial()
    world.topics.ends[A] = 9
    end = world.latest(start)
    before = world.stream.ranges(start, end)
    world.topics.ends |= {A: 20, B: 30}
    world.again()  # the driver died; Spark has only the end of batch 0
    assert world.stream.ranges(world.initial(), end) == before == [OffsetRange(A, 5, 9)]


def test_a_repeated_empty_first_batch_is_empty() -> None:
    world = World(FakeTopics(p0=5))
    end = world.latest(world.initial())
    world.topics.ends[A] = 9
    world.again()
    assert world.stream.ranges(world.initial(), end) == []
    assert world.stream.ranges(end, world.latest(end)) == [OffsetRange(A, 5, 9)]


def test_no_new_records_give_the_same_offset() -> None:
    world = World(FakeTopics(p0=5))
    start = world.initial()
    assert json.dumps(world.latest(start)) == json.dumps(start)
    world.topics.ends[A] = 6
    end = world.latest(start)
    assert json.dumps(world.latest(end)) == json.dumps(end)


def test_a_new_partition_is_read_from_its_first_record_each_time() -> None:
    world = World(FakeTopics(p0=5))
    start = world.latest(world.initial())
    world.topics.ends[B] = 7
    world.topics.firsts[B] = 2
    end = world.latest(start)
    assert world.stream.ranges(start, end) == [OffsetRange(B, 2, 7)]
    world.topics.firsts[B] = 4
    world.again()
    assert world.stream.ranges(start, end) == [OffsetRange(B, 2, 7)]


def test_processed_offsets_are_committed_once() -> None:
    world = World(FakeTopics(p0=5), maxOffsetsPerTrigger="2")
    start = world.initial()
    world.topics.ends[A] = 9
    middle = world.latest(start)
    world.latest(start)
    world.latest(world.latest(middle))
    assert world.committed == [{A: 5}, {A: 7}, {A: 9}]


def test_available_now_ends_where_the_topics_ended() -> None:
    world = World(FakeTopics(p0=5), maxOffsetsPerTrigger="3", minOffsetsPerTrigger="2")
    start = world.initial()
    world.topics.ends[A] = 9
    world.stream.fix_end()
    world.topics.ends |= {A: 50, B: 3}
    first = world.latest(start)
    second = world.latest(first)
    assert [world.stream.ranges(start, first), world.stream.ranges(first, second)] == [
        [OffsetRange(A, 5, 8)],
        [OffsetRange(A, 8, 9)],  # fewer than wanted, and no more will come
    ]
    assert world.latest(second) == second


def test_a_small_batch_waits_for_more_or_for_long_enough() -> None:
    world = World(FakeTopics(p0=5), minOffsetsPerTrigger="3", maxTriggerDelay="1s")
    start = world.initial()
    world.topics.ends[A] = 6
    first = world.latest(start)
    assert world.stream.ranges(start, first) == [OffsetRange(A, 5, 6)]  # nothing before it
    world.topics.ends[A] = 8
    assert world.latest(first) == first
    world.now_ms = 999
    assert world.latest(first) == first
    world.now_ms = 1_000
    assert world.latest(first)["logs"] == {"0": 8}


def test_read_all_available_ignores_limits() -> None:
    world = World(FakeTopics(p0=0), maxOffsetsPerTrigger="1")
    start = world.initial()
    world.topics.ends[A] = 9
    assert world.latest(start, unlimited=True)["logs"] == {"0": 9}


def test_a_deleted_topic_is_data_loss() -> None:
    world = World(FakeTopics(p0=5, p1=5))
    start = world.latest(world.initial())
    del world.topics.ends[B]
    with pytest.raises(DataLost, match=r"logs-1 is gone; it was read up to 5.*failOnDataLoss"):
        world.stream.latest(start)
    assert world.slept_ms == [10, 10]  # it may have been a stale answer


class SeenBefore(FakeTopics):
    """Caches its partitions for a while, as the real one does."""

    def __init__(self, **ends: int) -> None:
        super().__init__(**ends)
        self.invalidate()

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        return self.seen

    def invalidate(self) -> None:
        self.seen = sorted(self.ends)

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        if not self.ends.keys() >= set(partitions):
            raise NoSuchTopic("there is no topic 'logs'")
        return super().latest(partitions)


def test_a_topic_deleted_after_the_lookup_is_the_same_loss() -> None:
    world = World(SeenBefore(p0=5, p1=5))
    start = world.latest(world.initial())
    del world.topics.ends[B]
    with pytest.raises(DataLost, match=r"logs-1 is gone; it was read up to 5"):
        world.stream.latest(start)
    world = World(SeenBefore(p0=5, p1=5), failOnDataLoss="false")
    start = world.latest(world.initial())
    del world.topics.ends[B]
    assert world.latest(start)["logs"] == {"0": 5}


def test_a_truncated_topic_is_data_loss() -> None:
    world = World(FakeTopics(p0=5))
    start = world.latest(world.initial())
    world.topics.ends[A] = 3
    with pytest.raises(DataLost, match=r"logs-0 ends at 3 and was read up to 5"):
        world.stream.latest(start)


def test_with_loss_allowed_a_recreated_topic_is_read_from_its_start() -> None:
    world = World(FakeTopics(p0=5, p1=5), failOnDataLoss="false")
    start = world.latest(world.initial())
    del world.topics.ends[B]
    world.topics.ends[A] = 3
    end = world.latest(start)
    assert world.stream.ranges(start, end) == [OffsetRange(A, 0, 3)]
    assert world.latest(end) == end


@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
def test_an_open_transaction_before_the_offset_that_was_read_is_no_loss(fail_on_loss: str) -> None:
    world = World(FakeTopics(p0=5), failOnDataLoss=fail_on_loss)
    start = world.latest(world.initial())
    world.topics.ends[A] = 3  # the last stable offset; the stream was read_uncommitted before
    world.topics.uncommitted[A] = 8
    assert world.latest(start) == start
    world.topics.ends[A] = 8
    end = world.latest(start)
    assert world.stream.ranges(start, end) == [OffsetRange(A, 5, 8)]


def test_a_stream_continues_from_offsets_of_sparks_connector() -> None:
    world = World(FakeTopics(p0=9, p1=4))
    assert world.stream.ranges({"logs": {"0": 5}}, {"logs": {"0": 9, "1": 4}}) == [
        OffsetRange(A, 5, 9),
        OffsetRange(B, 0, 4),
    ]


@pytest.mark.parametrize(
    ("option", "value", "sizes"),
    [("minPartitions", "4", [2, 2, 2, 3]), ("maxRecordsPerPartition", "3", [3, 3, 3])],
)
def test_tasks_are_cut_as_asked_for(option: str, value: str, sizes: list[int]) -> None:
    world = World(FakeTopics(p0=0), **{option: value})
    start = world.initial()
    world.topics.ends[A] = 9
    assert [piece.size for piece in world.stream.ranges(start, world.latest(start))] == sizes


def test_the_ends_are_reported() -> None:
    world = World(FakeTopics(p0=5), maxOffsetsPerTrigger="1")
    start = world.initial()
    assert world.stream.reported() is None
    world.topics.ends[A] = 9
    world.latest(start)
    assert world.stream.reported() == {"logs": {"0": 9}}


@settings(deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from([A, B]), st.integers(0, 20), st.booleans(), st.booleans()),
        max_size=20,
    ),
    limit=st.integers(1, 15),
)
def test_every_record_is_read_once_whatever_dies(
    steps: list[tuple[TopicPartition, int, bool, bool]], limit: int
) -> None:
    """Records arrive, partitions are added, and drivers die after planning or finishing a batch."""
    world = World(FakeTopics(p0=3), maxOffsetsPerTrigger=str(limit))
    committed: dict[str, Any] | None = None
    begun: Offsets = {}
    read: dict[TopicPartition, list[int]] = {A: [], B: []}
    for partition, count, dies_planned, dies_done in steps:
        if partition in world.topics.ends or count:
            world.topics.ends[partition] = world.topics.ends.get(partition, 0) + count
        begun = begun or dict(world.topics.ends)
        committed = do_a_batch(world, committed, read, dies_planned)
        if dies_done:
            world.again()
    for _ in range(500):
        before, committed = committed, do_a_batch(world, committed, read, False)
        if before == committed:
            break
    begun = begun or dict(world.topics.ends)
    for partition, end_offset in world.topics.ends.items():
        assert read[partition] == list(range(begun.get(partition, 0), end_offset))


def do_a_batch(
    world: World,
    committed: dict[str, Any] | None,
    read: dict[TopicPartition, list[int]],
    dies_planned: bool,
) -> dict[str, Any]:
    """Run a batch as Spark does; if the driver dies, the next has only the end of the batch."""
    end = world.latest(world.initial() if committed is None else committed)
    if dies_planned:
        world.again()
    start = world.initial() if committed is None else committed
    for piece in world.stream.ranges(start, end):
        read[piece.partition] += range(piece.start, piece.end)
    return end
