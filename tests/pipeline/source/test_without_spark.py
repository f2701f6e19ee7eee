"""The driver's and the tasks' code at a running broker, without Spark."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from conftest import Server
from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.sink.sink_options import read_sink_options
from sawlog.pipeline.sink.topic_writer import TopicWriter
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.client_options import Brokers
from sawlog.pipeline.source.executor_check import versions_here
from sawlog.pipeline.source.group_progress import GroupProgress
from sawlog.pipeline.source.offset_json import AtOffsets, AtSameTime, AtTimes, Mark
from sawlog.pipeline.source.range_reader import read_batches
from sawlog.pipeline.source.source_options import ReadSettings, Topics, read_source_options
from sawlog.pipeline.source.subscription import LOOK_EVERY_MS, BadPosition, Subscription
from sawlog.pipeline.source.topic_source import ranges_between
from sawlog.pipeline.source.topic_stream import DataLost
from support.pipeline.topics import Topics as Made
from support.pipeline.topics import making


@pytest.fixture
def made(broker: Server) -> Iterator[Made]:
    with making(broker.bootstrap) as found:
        yield found


def settings_for(broker: Server, **changes: Any) -> ReadSettings:
    usual: dict[str, Any] = {
        "brokers": Brokers(broker.bootstrap, timeout_ms=5_000),
        "columns": ("offset", "value"),
        "read_committed": False,
        "fetch_bytes": 1 << 20,
        "fail_on_data_loss": True,
        "versions": versions_here(),
    }
    return ReadSettings(**usual | changes)


def offsets_read(settings: ReadSettings, topic: str, start: int, end: int) -> list[int]:
    batches = list(read_batches(settings, OffsetRange(partition_of(topic, 0), start, end)))
    return pa.Table.from_batches(batches).column("offset").to_pylist() if batches else []


def test_positions_of_every_kind_become_offsets(made: Made, topic: str) -> None:
    made.create(topic, 2)
    made.write(topic, 10)  # with times from 1_000_000 on
    made.write(topic, 4, 1)
    made.cut(topic, 2)
    a, b = partition_of(topic, 0), partition_of(topic, 1)
    topics = Subscription(made.cluster, Topics(names=(topic,)))
    assert topics.resolve(Mark.EARLIEST, is_start=True) == {a: 2, b: 0}
    assert topics.resolve(Mark.LATEST, is_start=True) == {a: 10, b: 4}
    assert topics.resolve(AtOffsets({a: 5, b: -2}), is_start=True) == {a: 5, b: 0}
    assert topics.resolve(AtOffsets({a: -1, b: 1}), is_start=False) == {a: 10, b: 1}
    assert topics.resolve(AtTimes({a: 1_000_007, b: 0}), is_start=True) == {a: 7, b: 0}
    assert topics.resolve(AtSameTime(1_000_003), is_start=False) == {a: 3, b: 3}
    late = AtSameTime(1_000_006)
    assert topics.resolve(late, is_start=False) == {a: 6, b: 4}
    assert topics.resolve(late, is_start=True, late_start_is_latest=True) == {a: 6, b: 4}
    with pytest.raises(BadPosition, match=f"no record of {b} is as late"):
        topics.resolve(late, is_start=True)
    with pytest.raises(BadPosition, match=f"it leaves out {b}"):
        topics.resolve(AtOffsets({a: 5}), is_start=True)
    with pytest.raises(BadPosition, match="names other-0, which is not read"):
        topics.resolve(AtTimes({a: 5, b: 5, partition_of("other", 0): 1}), is_start=True)


def test_a_batch_that_ends_before_it_starts_is_rejected(made: Made, topic: str) -> None:
    made.create(topic, 1)
    made.write(topic, 4)
    options = read_source_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": topic,
            "startingOffsets": f'{{"{topic}": {{"0": 9}}}}',
        },
        streaming=False,
    )
    topics = Subscription(made.cluster, options.topics)
    with pytest.raises(BadPosition, match="the starting offset 9 is after the ending offset 4"):
        ranges_between(topics, options)


def test_topics_are_found_by_name_by_pattern_and_by_partition(made: Made, topic: str) -> None:
    made.create(topic, 2)
    now_ms = [0.0]

    def look(topics: Topics) -> Subscription:
        return Subscription(made.cluster, topics, monotonic_ms=lambda: now_ms[0])

    pattern = look(Topics(pattern=f"{topic}(-more)?"))
    assert [str(found) for found in pattern.partitions()] == [f"{topic}-0", f"{topic}-1"]
    made.create(f"{topic}-more")
    made.create(f"{topic}-moreover")
    assert len(pattern.partitions()) == 2  # cached for a while
    now_ms[0] += LOOK_EVERY_MS
    assert [str(found) for found in pattern.partitions()][2:] == [f"{topic}-more-0"]
    one = partition_of(topic, 1)
    assert look(Topics(partitions=(one,))).partitions() == [one]
    with pytest.raises(BadPosition, match=f"there is no {topic}-7"):
        look(Topics(partitions=(one, partition_of(topic, 7)))).partitions()
    with pytest.raises(Exception, match="there is no topic 'no-such-topic'"):
        look(Topics(names=("no-such-topic",))).partitions()
    assert look(Topics(names=("no-such-topic", topic))).partitions(missing_ok=True) == [
        partition_of(topic, 0),
        one,
    ]


def test_a_task_reuses_a_connection_and_sees_new_partitions(
    broker: Server, made: Made, topic: str
) -> None:
    made.create(topic)
    made.write(topic, 3)
    settings = settings_for(broker)
    assert offsets_read(settings, topic, 0, 3) == [0, 1, 2]
    made.grow(topic, 2)
    made.write(topic, 2, 1)
    [batch] = read_batches(settings, OffsetRange(partition_of(topic, 1), 0, 2))
    assert batch.to_pydict() == {"offset": [0, 1], "value": [b"0", b"1"]}


def test_a_task_that_is_abandoned_does_not_affect_the_next(
    broker: Server, made: Made, topic: str
) -> None:
    made.create(topic)
    made.write(topic, 5_000)
    settings = settings_for(broker, fetch_bytes=4_096)
    reading = read_batches(settings, OffsetRange(partition_of(topic, 0), 0, 5_000))
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert offsets_read(settings, topic, 0, 5_000) == list(range(5_000))


def test_lost_records_stop_a_task_or_are_skipped(
    broker: Server, made: Made, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    made.create(topic)
    made.write(topic, 10)
    made.cut(topic, 4)
    with pytest.raises(DataLost, match=f"{topic}-0 no longer has all of the offsets 2 to 11"):
        offsets_read(settings_for(broker), topic, 2, 12)
    lenient = settings_for(broker, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        assert offsets_read(lenient, topic, 2, 12) == list(range(4, 10))
        assert offsets_read(lenient, "no-such-topic", 0, 5) == []
    assert "continuing with the records that are left" in caplog.text
    with pytest.raises(DataLost, match="no-such-topic"):
        offsets_read(settings_for(broker), "no-such-topic", 0, 5)


def test_offsets_are_committed_and_a_failure_is_logged_once(
    made: Made, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    made.create(topic, 2)
    a, b = partition_of(topic, 0), partition_of(topic, 1)
    assert GroupProgress(made.cluster, topic).commit({a: 5, b: 7})
    committed, _ = GroupAdmin(made.cluster).committed_offsets([topic])
    assert {where: told.offset for where, told in committed[topic].items()} == {a: 5, b: 7}
    progress = GroupProgress(made.cluster, topic)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not progress.commit({partition_of("no-such-topic", 0): 1})
    assert caplog.text.count("offsets were not committed") == 1


def test_an_unreachable_broker_is_not_contacted_at_every_batch() -> None:
    now_ms = [0.0]
    with Cluster("127.0.0.1:1", timeout_ms=100) as nowhere:
        progress = GroupProgress(nowhere, "group", monotonic_ms=lambda: now_ms[0])
        assert not progress.commit({partition_of("logs", 0): 1})
        nowhere.fetch_metadata = None  # type: ignore[assignment,method-assign]
        assert not progress.commit({partition_of("logs", 0): 1})


def test_a_named_topic_that_is_missing_is_an_error_that_names_it(made: Made) -> None:
    options = read_source_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "no-such-topic"}, streaming=True
    )
    with pytest.raises(Exception, match="no topic 'no-such-topic'") as caught:
        Subscription(made.cluster, options.topics).resolve(options.starting, is_start=True)
    assert not isinstance(caught.value, NoSuchTopic)


def test_a_misspelt_topic_is_rejected_and_not_created(
    broker: Server, made: Made, topic: str
) -> None:
    made.create(topic)
    options = read_sink_options({"kafka.bootstrap.servers": broker.bootstrap})
    rows = pa.record_batch({"topic": [topic, f"{topic}-typo"], "value": [b"1", b"2"]})
    with options.brokers.connect() as cluster:
        writer = TopicWriter(cluster, options)
        with pytest.raises(NoSuchTopic, match=f"{topic}-typo"):
            writer.write(rows)
        assert f"{topic}-typo" not in cluster.fetch_metadata(None).topics
