"""Forked processes: what the child may use, and that the parent is not affected."""

import os
from collections.abc import Callable

import pytest

from sawlog.client import AT_EARLIEST, Admin, Consumer, GroupSettings, Producer

# Newer Pythons warn of a fork while threads are running, which these tests need.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

POLL_MS = 100
GUARD_POLLS = 300


def in_a_child(act: Callable[[], object]) -> str:
    """Run in a forked child; return the result or the exception."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(act())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(GUARD_POLLS):
        found += [record.value for record in consumer.poll(POLL_MS)]
        if len(found) >= count:
            return found
    raise AssertionError(found)


def test_a_forked_child_cannot_use_its_parents_producer(
    quick_groups: str, three_partitions: str
) -> None:
    """Its record would be stored, and the parent's next one dropped as a duplicate."""
    topic = three_partitions
    with Producer(quick_groups) as producer, Consumer(quick_groups) as consumer:
        first = producer.send(topic, b"before", partition=0)
        first.result()
        result = in_a_child(lambda: producer.send(topic, b"child", partition=0).result())
        assert f"ValueError: the producer belongs to process {os.getpid()}" in result
        assert in_a_child(producer.close) == "None"
        producer.send(topic, b"after", partition=0)
        producer.flush()
        consumer.assign_topic(topic, AT_EARLIEST)
        assert values(consumer, 2) == [b"before", b"after"]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_forked_child_that_closes_a_member_leaves_it_in_the_group(
    quick_groups: str, three_partitions: str, protocol: str
) -> None:
    topic = three_partitions
    settings = GroupSettings(f"group-{topic}", protocol=protocol)
    with Producer(quick_groups) as producer, Consumer(quick_groups, group=settings) as consumer:
        consumer.subscribe([topic])
        producer.send(topic, b"before")
        producer.flush()
        assert values(consumer, 1) == [b"before"]
        owned = consumer.assignment
        assert "ValueError: the consumer belongs to" in in_a_child(lambda: consumer.poll(0))
        assert "ValueError: the consumer belongs to" in in_a_child(consumer.commit)
        assert in_a_child(consumer.close) == "None"
        consumer.commit()
        producer.send(topic, b"after")
        producer.flush()
        assert values(consumer, 1) == [b"after"]
        assert consumer.assignment == owned


def test_an_admin_works_in_parent_and_child(quick_groups: str, three_partitions: str) -> None:
    with Admin(quick_groups) as admin:
        names = [topic.name for topic in admin.list_topics()]
        for _ in range(3):
            assert in_a_child(lambda: [topic.name for topic in admin.list_topics()]) == str(names)
            assert [topic.name for topic in admin.list_topics()] == names
