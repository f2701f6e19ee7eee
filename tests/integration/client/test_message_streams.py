"""Message streams: blocking iterators, with each message in one of them."""

import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from sawlog.client import (
    Admin,
    ConsumedRecord,
    Consumer,
    ErrorCode,
    KafkaError,
    MessageStream,
    Producer,
)
from sawlog.client.consumer.message_streams import MessageStreams, RecordSource
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.retries import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60


class Readers:
    """One thread per stream, which reads until the stream ends."""

    def __init__(
        self, streams: list[MessageStream], changed: threading.Condition | None = None
    ) -> None:
        self._changed = changed or threading.Condition()
        self.read: list[list[ConsumedRecord]] = [[] for _ in streams]
        self._threads = [
            threading.Thread(target=self._read, args=(number, stream), daemon=True)
            for number, stream in enumerate(streams)
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, number: int, stream: MessageStream) -> None:
        for record in stream:
            with self._changed:
                self.read[number].append(record)
                self._changed.notify_all()

    def wait_for(self, count: int) -> list[ConsumedRecord]:
        """Wait until the streams have yielded `count` records in total."""
        with self._changed:
            assert self._changed.wait_for(lambda: sum(map(len, self.read)) >= count, GUARD_S)
            return [record for some in self.read for record in some]

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(GUARD_S)
            assert not thread.is_alive()


def check_streams(readers: Readers, count: int) -> None:
    """Check that each record came once, and those of a partition from one stream in order."""
    owners: dict[int, set[int]] = defaultdict(set)
    for number, some in enumerate(readers.read):
        offsets: dict[int, list[int]] = defaultdict(list)
        for record in some:
            owners[record.partition].add(number)
            offsets[record.partition].append(record.offset)
        assert all(each == sorted(each) for each in offsets.values())
    assert all(len(numbers) == 1 for numbers in owners.values())
    places = Counter((r.partition, r.offset) for some in readers.read for r in some)
    assert len(places) == count
    assert set(places.values()) == {1}


@pytest.mark.parametrize("group", [None, "streams"])
def test_each_message_comes_from_one_stream(quick_groups, three_partitions, group) -> None:
    topic = three_partitions
    name = group and f"{group}-{topic}"
    consumer = Consumer(quick_groups, group=name)
    readers = Readers(consumer.message_streams(topic, 2))
    with Producer(quick_groups) as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % 3)
        producer.flush()
        found = readers.wait_for(300)
        assert {int(record.value or b"") for record in found} == set(range(300))
        assert all(readers.read), "both have something to do"
        producer.send(topic, b"one more").result()
        readers.wait_for(301)
    consumer.close()
    readers.wait()
    check_streams(readers, 301)


def test_a_message_is_committed_after_its_reader_asks_for_the_next(
    quick_groups, three_partitions
) -> None:
    topic = three_partitions
    with Producer(quick_groups) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=1)
    with Consumer(quick_groups, group=f"group-{topic}") as consumer:
        (stream,) = consumer.message_streams(topic, 1)
        for _ in range(4):
            next(stream)
    with Admin(quick_groups) as admin:
        committed, _ = admin.committed_offsets([f"group-{topic}"])
        where = partition_of(topic, 1)
        assert committed[f"group-{topic}"][where].offset == 3, "the fourth was being processed"


def test_streams_of_two_members_share_the_topic(quick_groups, three_partitions) -> None:
    topic = three_partitions
    consumers = [Consumer(quick_groups, group=f"group-{topic}") for _ in range(2)]
    changed = threading.Condition()
    readers = [Readers(consumer.message_streams(topic, 2), changed) for consumer in consumers]

    def both_have_a_part() -> bool:
        return all(any(each.read) for each in readers)

    def have_come() -> int:
        return len({r.value for each in readers for some in each.read for r in some})

    try:
        give_up, sent = Deadline(GUARD_S * 1_000), 0
        with Producer(quick_groups) as producer:
            while not both_have_a_part() and not give_up.has_passed:
                for _ in range(10):
                    producer.send(topic, b"%d" % sent, partition=sent % 3)
                    sent += 1
                producer.flush()
                with changed:
                    changed.wait_for(both_have_a_part, 0.05)
        assert both_have_a_part()
        with changed:
            is_complete = changed.wait_for(lambda: have_come() == sent, GUARD_S)
        assert is_complete, "a rebalance may bring one twice, and leaves none out"
    finally:
        for consumer, each in zip(consumers, readers, strict=True):
            consumer.close()
            each.wait()


def test_a_consumer_has_one_set_of_streams(quick_groups, three_partitions) -> None:
    with Consumer(quick_groups) as consumer:
        with pytest.raises(ValueError, match="at least 1"):
            consumer.message_streams(three_partitions, 0)
        consumer.message_streams(three_partitions, 1)
        with pytest.raises(ValueError, match="already"):
            consumer.message_streams(three_partitions, 1)


class Scripted:
    """A consumer whose polls return scripted records."""

    def __init__(self, *answers: list[ConsumedRecord] | Exception) -> None:
        self._answers: Iterator[list[ConsumedRecord] | Exception] = iter(answers)
        self.paused: set[object] = set()
        self.source = RecordSource(self.poll, self.paused.update, self.resume, self.assignment)

    def poll(self, timeout_ms: float) -> list[ConsumedRecord]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return [each for each in answer if partition_of("t", each.partition) not in self.paused]

    def resume(self, partitions: object) -> None:
        self.paused.difference_update(partitions)  # type: ignore[call-overload]

    def assignment(self) -> frozenset[object]:
        return frozenset({partition_of("t", 0), partition_of("t", 1)})


def records(partition: int, *offsets: int) -> list[ConsumedRecord]:
    return [ConsumedRecord("t", partition, at, 0, 0, 0, None, b"", ()) for at in offsets]


def test_a_slow_reader_holds_up_only_its_partitions(monkeypatch) -> None:
    monkeypatch.setattr("sawlog.client.consumer.message_streams._FULL", 3)
    monkeypatch.setattr("sawlog.client.consumer.message_streams._RESUME", 2)
    consumer = Scripted(
        records(0, 0, 1, 2, 3, 4) + records(1, 0), records(1, 1), records(0, 5) + records(1, 2)
    )
    streams = MessageStreams(consumer.source, 2)  # type: ignore[arg-type]
    slow, quick = streams.streams
    assert next(slow).offset == 0
    assert [next(quick).offset for _ in range(2)] == [0, 1]
    assert consumer.paused == {partition_of("t", 0)}
    assert [next(slow).offset for _ in range(3)] == [1, 2, 3]
    assert next(quick).offset == 2
    assert consumer.paused == set()
    assert [next(slow).offset for _ in range(2)] == [4, 5]
    assert streams.progress() == {partition_of("t", 0): 5, partition_of("t", 1): 2}


def test_an_error_is_raised_in_the_polling_reader_and_the_next_call_retries() -> None:
    consumer = Scripted(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), records(0, 0))
    (stream,) = MessageStreams(consumer.source, 1).streams  # type: ignore[arg-type]
    with pytest.raises(KafkaError):
        next(stream)
    assert next(stream).offset == 0


def test_messages_of_revoked_partitions_are_dropped() -> None:
    consumer = Scripted(records(0, 0, 1) + records(1, 0), records(1, 1))
    streams = MessageStreams(consumer.source, 1)  # type: ignore[arg-type]
    (stream,) = streams.streams
    assert next(stream).offset == 0
    streams.listener.revoked([partition_of("t", 0)])
    assert [(record.partition, record.offset) for record in (next(stream), next(stream))] == [
        (1, 0),
        (1, 1),
    ]
    assert streams.progress() == {partition_of("t", 1): 1}


def test_a_message_from_before_a_revocation_is_not_marked_done() -> None:
    consumer = Scripted(records(0, 9), records(0, 3, 4) + records(1, 0))
    streams = MessageStreams(consumer.source, 2)  # type: ignore[arg-type]
    first, second = streams.streams
    assert next(first).offset == 9
    streams.listener.lost([partition_of("t", 0)])
    assert next(second).partition == 1  # by the poll that returns the other one, too
    assert next(first).offset == 3
    assert streams.progress() == {}
    assert next(first).offset == 4
    assert streams.progress() == {partition_of("t", 0): 4}
