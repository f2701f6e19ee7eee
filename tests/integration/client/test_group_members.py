"""A consumer as a member of groups: both protocols, against a running broker."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sawlog.client import (
    AT_EARLIEST,
    Admin,
    AtOffset,
    CommitFailed,
    ConsumedRecord,
    Consumer,
    ErrorCode,
    GroupSettings,
    KafkaError,
    NewTopic,
    NoBrokerReachable,
    OffsetReset,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from sawlog.client.net.leader_requests import partition_of

GUARD_POLLS = 300
POLL_MS = 100

SETTINGS: dict[str, dict[str, Any]] = {
    "consumer": {"protocol": "consumer"},
    "range": {"protocol": "classic", "assignors": ("range",)},
    "cooperative": {"protocol": "classic", "assignors": ("cooperative-sticky",)},
}
QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 100}


@pytest.fixture(params=SETTINGS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def settings(topic: str, kind: str, **more: Any) -> GroupSettings:
    return GroupSettings(f"group-{topic}", **{**SETTINGS[kind], **QUICK, **more})


class Diary(RebalanceListener):
    def __init__(self) -> None:
        self.entries: list[tuple[str, list[int]]] = []

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.entries.append(("assigned", [each.partition for each in partitions]))

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.entries.append(("revoked", [each.partition for each in partitions]))

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.entries.append(("lost", [each.partition for each in partitions]))


def produce(bootstrap: str, topic: str, *values: bytes, partition: int | None = None) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    for _ in range(GUARD_POLLS):
        records += consumer.poll(POLL_MS)
        if len(records) >= count:
            return records
    raise AssertionError(f"{len(records)} of {count} records came")


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    for _ in range(GUARD_POLLS):
        for consumer in consumers:
            records += consumer.poll(POLL_MS)
        if condition():
            return records
    raise AssertionError([sorted(consumer.assignment) for consumer in consumers])


def test_a_member_reads_from_the_committed_offset(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    group = settings(topic, kind)
    produce(quick_groups, topic, *(b"%d" % n for n in range(30)))
    with Consumer(quick_groups, group=group) as consumer:
        consumer.subscribe([topic])
        assert sorted(int(r.value or b"") for r in read(consumer, 30)) == list(range(30))
    produce(quick_groups, topic, b"late")
    with Consumer(
        quick_groups, group=group
    ) as consumer:  # committed when the first consumer was closed
        consumer.subscribe([topic])
        assert [record.value for record in read(consumer, 1)] == [b"late"]


def test_records_of_the_last_poll_are_not_committed_after_an_error(
    quick_groups, three_partitions, kind
) -> None:
    topic = three_partitions
    group = settings(topic, kind)
    produce(quick_groups, topic, b"a")
    consumer = Consumer(quick_groups, group=group)
    consumer.subscribe([topic])
    read(consumer, 1)
    with pytest.raises(ZeroDivisionError), consumer:
        _ = 1 / 0
    with Consumer(quick_groups, group=group) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in read(consumer, 1)] == [b"a"]


def test_the_consumer_protocol_is_the_default(quick_groups, three_partitions) -> None:
    group = f"group-{three_partitions}"
    with Consumer(quick_groups, group=group) as consumer, Admin(quick_groups) as admin:
        consumer.subscribe([three_partitions])
        poll_until(lambda: len(consumer.assignment) == 3, consumer)
        described, _ = admin.describe_groups([group])
        assert described[group].type == "consumer"
        assert [len(member.assigned or ()) for member in described[group].members] == [3]


def test_commits_by_hand(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    where, elsewhere = partition_of(topic, 1), partition_of(topic, 2)
    produce(quick_groups, topic, b"a", b"b", b"c", partition=1)
    group = settings(topic, kind)
    with Consumer(quick_groups, group=group, auto_commit_ms=None) as consumer:
        consumer.subscribe([topic])
        read(consumer, 3)
        assert consumer.committed([where, elsewhere]) == {}
        consumer.commit({where: 2})
        assert consumer.committed([where])[where].offset == 2
        consumer.commit()
        assert {p: c.offset for p, c in consumer.committed([where, elsewhere]).items()} == {
            where: 3,
            elsewhere: 0,
        }
        heard: list[tuple[Any, Exception | None]] = []
        consumer.commit_async({where: 1}, lambda offsets, error: heard.append((offsets, error)))
        poll_until(lambda: bool(heard), consumer)
        assert heard == [({where: 1}, None)]
        with pytest.raises(CommitFailed, match="other-0 were not committed"):
            consumer.commit({partition_of("other", 0): 1})
    with Consumer(quick_groups, group=group, auto_commit_ms=None) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in read(consumer, 2)] == [b"b", b"c"]


def test_auto_commit_commits_records_of_earlier_polls(quick_groups, three_partitions) -> None:
    topic = three_partitions
    produce(quick_groups, topic, b"a", partition=0)
    with Consumer(quick_groups, group=f"group-{topic}", auto_commit_ms=1) as consumer:
        consumer.subscribe([topic])
        read(consumer, 1)
        where = partition_of(topic, 0)
        poll_until(lambda: where in consumer.committed([where]), consumer)
        assert consumer.committed([where])[where].offset == 1


def test_a_former_member_cannot_commit(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    produce(quick_groups, topic, b"a", partition=0)
    where = partition_of(topic, 0)
    consumer = Consumer(quick_groups, group=settings(topic, kind), auto_commit_ms=None)
    with consumer:
        consumer.subscribe([topic])
        read(consumer, 1)
        consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        consumer.subscribe([topic])
        with pytest.raises(CommitFailed):
            consumer.commit({where: 1})


def test_two_members_share_and_the_remaining_one_gets_all(
    quick_groups, three_partitions, kind
) -> None:
    topic = three_partitions
    group = settings(topic, kind)
    diary = Diary()
    with Consumer(quick_groups, group=group) as first:
        first.subscribe([topic], listener=diary)
        poll_until(lambda: len(first.assignment) == 3, first)
        with Consumer(quick_groups, group=group) as second:
            second.subscribe([topic])
            poll_until(lambda: len(second.assignment) >= 1, first, second)
            poll_until(lambda: len(first.assignment | second.assignment) == 3, first, second)
            assert not first.assignment & second.assignment
        poll_until(lambda: len(first.assignment) == 3, first)
    held: set[int] = set()
    for what, partitions in diary.entries:
        held = held | set(partitions) if what == "assigned" else held - set(partitions)
    assert held == set(), "closing lets go of everything"
    assert {what for what, _ in diary.entries} == {"assigned", "revoked"}


def test_added_partitions_are_read(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    group = settings(topic, kind, metadata_interval_ms=100)
    with Consumer(quick_groups, group=group) as consumer, Admin(quick_groups) as admin:
        consumer.subscribe([topic])
        produce(quick_groups, topic, b"a")
        read(consumer, 1)
        assert admin.create_partitions({topic: 6}) == {}
        produce(quick_groups, topic, b"b", partition=5)
        assert [(r.partition, r.value) for r in read(consumer, 1)] == [(5, b"b")]


def test_a_listener_may_seek_and_pause(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    for index in range(3):
        produce(quick_groups, topic, b"a", b"b", b"c", partition=index)

    class Chooser(RebalanceListener):
        def assigned(self, partitions: Sequence[TopicPartition]) -> None:
            consumer.seek(partition_of(topic, 0), AtOffset(2))
            consumer.pause([partition_of(topic, 1)])
            assert consumer.position(partition_of(topic, 2)) == 0

    with Consumer(quick_groups, group=settings(topic, kind)) as consumer:
        consumer.subscribe([topic], listener=Chooser())
        found = [(record.partition, record.offset) for record in read(consumer, 4)]
        assert sorted(found) == [(0, 2), (2, 0), (2, 1), (2, 2)]
        consumer.resume([partition_of(topic, 1)])
        assert [record.partition for record in read(consumer, 3)] == [1, 1, 1]


def test_poll_raises_the_exception_of_a_listener(quick_groups, three_partitions) -> None:
    class Wrong(RebalanceListener):
        def assigned(self, partitions: Sequence[TopicPartition]) -> None:
            raise LookupError("of the listener")

    produce(quick_groups, three_partitions, b"a")
    with Consumer(quick_groups, group=f"group-{three_partitions}") as consumer:
        consumer.subscribe([three_partitions], listener=Wrong())
        with pytest.raises(LookupError):
            read(consumer, 1)
        assert [record.value for record in read(consumer, 1)] == [b"a"]


@pytest.mark.parametrize("kind", ["consumer", "range"])
def test_a_pattern_subscribes_to_matching_topics(quick_groups, three_partitions, kind) -> None:
    one, two, other = (f"{three_partitions}-{end}" for end in ("a1", "a2", "b"))
    with Admin(quick_groups) as admin:
        assert (
            admin.create_topics([NewTopic(name, partitions=1) for name in (one, two, other)]) == {}
        )
    group = settings(three_partitions, kind, metadata_interval_ms=100)
    with Consumer(quick_groups, group=group) as consumer:
        consumer.subscribe(pattern=f"{three_partitions}-a.*")
        wanted = {partition_of(one, 0), partition_of(two, 0)}
        poll_until(lambda: consumer.assignment == wanted, consumer)
        consumer.subscribe([other])
        poll_until(lambda: consumer.assignment == {partition_of(other, 0)}, consumer)


@pytest.mark.parametrize("kind", ["consumer", "range"])
def test_a_static_member_rejoins_with_its_partitions(quick_groups, three_partitions, kind) -> None:
    topic = three_partitions
    diary = Diary()
    with Consumer(quick_groups, group=settings(topic, kind, instance_id="stays")) as stays:
        stays.subscribe([topic], listener=diary)
        poll_until(lambda: len(stays.assignment) == 3, stays)
        comes = Consumer(quick_groups, group=settings(topic, kind, instance_id="comes"))
        comes.subscribe([topic])
        poll_until(lambda: len(stays.assignment | comes.assignment) == 3, stays, comes)
        poll_until(lambda: bool(comes.assignment), stays, comes)
        had, entries = comes.assignment, list(diary.entries)
        comes.close()
        with Consumer(quick_groups, group=settings(topic, kind, instance_id="comes")) as again:
            again.subscribe([topic])
            poll_until(lambda: again.assignment == had, again, stays)
        assert diary.entries == entries, "nobody else noticed"


def test_a_duplicate_instance_id_is_an_error(quick_groups, three_partitions) -> None:
    group = settings(three_partitions, "range", instance_id="one")
    with (
        Consumer(quick_groups, group=group) as first,
        Consumer(quick_groups, group=group) as second,
    ):
        first.subscribe([three_partitions])
        poll_until(lambda: len(first.assignment) == 3, first)
        second.subscribe([three_partitions])
        with pytest.raises(KafkaError, match="give each its own") as raised:
            poll_until(lambda: False, second, first)
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_does_not_poll_leaves_and_rejoins(
    quick_groups, three_partitions, kind
) -> None:
    topic = three_partitions
    diary = Diary()
    group = settings(topic, kind)
    slow = Consumer(quick_groups, group=settings(topic, kind, max_poll_interval_ms=1_500))
    with slow, Consumer(quick_groups, group=group) as other:
        slow.subscribe([topic], listener=diary)
        poll_until(lambda: len(slow.assignment) == 3, slow)
        diary.entries.clear()
        other.subscribe([topic])
        poll_until(lambda: len(other.assignment) == 3, other)  # while the slow member is busy
        assert len(slow.assignment) == 3, "it cannot know yet"
        with pytest.raises(CommitFailed):
            slow.commit({partition_of(topic, 0): 0})
        poll_until(lambda: bool(slow.assignment) and bool(diary.entries), slow, other)
        poll_until(lambda: len(slow.assignment | other.assignment) == 3, slow, other)
        assert diary.entries[0] == ("lost", [0, 1, 2])
        assert not slow.assignment & other.assignment


def test_offset_reset_fail_raises_without_a_committed_offset(
    quick_groups, three_partitions
) -> None:
    group = f"group-{three_partitions}"
    with Consumer(quick_groups, group=group, offset_reset=OffsetReset.FAIL) as consumer:
        consumer.subscribe([three_partitions])
        with pytest.raises(KafkaError, match="has no committed offset"):
            read(consumer, 1)


def test_poll_raises_a_fatal_error_of_the_group(quick_groups, three_partitions) -> None:
    group = settings(three_partitions, "consumer", server_assignor="nope")
    with Consumer(quick_groups, group=group) as consumer:
        consumer.subscribe([three_partitions])
        for _ in range(2):
            with pytest.raises(KafkaError) as raised:
                read(consumer, 1)
            assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_assigned_partitions_are_committed_without_a_subscription(
    quick_groups, three_partitions
) -> None:
    topic = three_partitions
    produce(quick_groups, topic, b"a", b"b", partition=0)
    where = partition_of(topic, 0)
    with Consumer(quick_groups, group=f"group-{topic}") as consumer:
        consumer.assign({where: AT_EARLIEST})
        read(consumer, 2)
    with Admin(quick_groups) as admin:
        committed, _ = admin.committed_offsets([f"group-{topic}"])
        assert committed[f"group-{topic}"][where].offset == 2


def test_wakeup_ends_a_waiting_poll(quick_groups, three_partitions) -> None:
    with Consumer(quick_groups, group=f"group-{three_partitions}") as consumer:
        consumer.subscribe([three_partitions])
        poll_until(lambda: len(consumer.assignment) == 3, consumer)
        waker = threading.Thread(target=consumer.wakeup)
        waker.start()
        assert consumer.poll(3_600_000) == []
        waker.join()


def test_another_thread_may_close_a_polling_consumer(quick_groups, three_partitions) -> None:
    consumer = Consumer(quick_groups, group=f"group-{three_partitions}")
    consumer.subscribe([three_partitions])
    poll_until(lambda: len(consumer.assignment) == 3, consumer)
    closer = threading.Thread(target=consumer.close)
    closer.start()
    with pytest.raises(ValueError, match="is closed"):
        poll_until(lambda: False, consumer)
    closer.join()
    with Admin(quick_groups) as admin:
        described, _ = admin.describe_groups([f"group-{three_partitions}"])
        assert described[f"group-{three_partitions}"].members == []


def test_an_unreachable_broker_is_an_error_at_once() -> None:
    with Consumer("127.0.0.1:1", group="g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(NoBrokerReachable):
            read(consumer, 1)


def test_invalid_calls_are_refused() -> None:
    with Consumer("127.0.0.1:1") as consumer, pytest.raises(ValueError, match="has no group"):
        consumer.subscribe(["t"])
    with Consumer("127.0.0.1:1", group="g") as consumer:
        with pytest.raises(ValueError, match="name topics or a pattern"):
            consumer.subscribe([])
        consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="unsubscribe before"):
            consumer.assign({})
        with pytest.raises(ValueError, match="t-0 is not assigned"):
            consumer.pause([partition_of("t", 0)])
        with pytest.raises(ValueError, match="t-0: an offset must be from 0 to"):
            consumer.commit({partition_of("t", 0): -1})
    for late in (lambda: consumer.commit({partition_of("t", 0): 1}), lambda: consumer.poll(0)):
        with pytest.raises(ValueError, match="the consumer is closed"):
            late()
    for wrong in ({"protocol": "new"}, {"assignors": ("sticky",)}, {"session_timeout_ms": 1}):
        with pytest.raises(ValueError, match=r"protocol|assignors|heartbeat"):
            GroupSettings("g", **wrong)  # type: ignore[arg-type]
