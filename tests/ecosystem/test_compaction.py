"""Compacted topics as Kafka's tools, Kafka Streams and Kafka Connect see them."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.client_libraries.client_library import CODECS, Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.compaction import (
    SMALL_SEGMENTS,
    Kept,
    active_base_offset,
    compacted,
    read_all,
    wait_until_compacted,
    write,
)
from support.kafka.connect_worker import ConnectWorker
from support.kafka.kafka_broker import run_tool
from support.kafka.shared_brokers import START, Server
from support.kafka.streams_app import CLEAR, PARTITIONS, TotalsApp, totals_of
from support.programs import require_java

pytestmark = pytest.mark.long

OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
KEYS = 60
ROWS_PER_CODEC = 600
TOPIC = "compacted"
FIRST_MS = 1_700_000_000_000


class Compacted(NamedTuple):
    """A topic with batches of all codecs, what was written to it, and what is left."""

    server: Server
    library: Confluent
    written: list[Row]
    kept: list[Kept]


def changes() -> list[Row]:
    """Changes of a few keys, and now and then a tombstone; some keys belong to one codec."""
    return [
        Row(
            None if number % 41 == 0 else b"value %d " % number + b"x" * (number % 50),
            b"%s-%d" % (codec.encode() if number % 3 else b"all", number * number % KEYS),
            timestamp_ms=FIRST_MS + number,
        )
        for number, codec in enumerate(codec for codec in CODECS for _ in range(ROWS_PER_CODEC))
    ]


@pytest.fixture(scope="module")
def topic_and_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    require_java()
    settings = {"log.cleaner.backoff.ms": "100"}
    with START[target](tmp_path_factory.mktemp("broker"), settings) as server:
        library = Confluent(server.bootstrap)
        policy = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
        library.create_topic(TOPIC, config=SMALL_SEGMENTS | policy)
        written = changes()
        for index, codec in enumerate(CODECS):
            first = index * ROWS_PER_CODEC
            write(library, TOPIC, written[first : first + ROWS_PER_CODEC], codec)
        yield Compacted(server, library, written, wait_until_compacted(server, library, TOPIC))


def run(tool: str, *arguments: str) -> str:
    done = run_tool(tool, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_last_record_of_every_key_is_left_at_its_offset(topic_and_broker: Compacted) -> None:
    server, _, written, kept = topic_and_broker
    assert kept == compacted(written, active_base_offset(server, TOPIC))
    assert {record.key: record.value for record in kept} == {row.key: row.value for row in written}
    assert len(kept) < len(written) / 2


def test_the_console_consumer_reads_what_is_left(topic_and_broker: Compacted) -> None:
    server, _, _, kept = topic_and_broker
    shown = ("print.key", "print.offset")
    options = [option for name in shown for option in ("--formatter-property", f"{name}=true")]
    end = ("--from-beginning", "--max-messages", str(len(kept)))
    place = ("--bootstrap-server", server.bootstrap, "--topic", TOPIC)
    output = run(CONSUMER, *place, *options, *end)
    assert output.splitlines() == [
        f"Offset:{each.offset}\t{(each.key or b'').decode()}\t{(each.value or b'null').decode()}"
        for each in kept
    ]


def test_kafka_get_offsets_finds_the_next_record_that_is_left(topic_and_broker: Compacted) -> None:
    server, _, written, kept = topic_and_broker
    place = ("--bootstrap-server", server.bootstrap, "--topic", TOPIC)
    gone = next(n for n in range(len(written)) if n not in {each.offset for each in kept})
    following = next(each.offset for each in kept if each.offset > gone)
    times = {"earliest": 0, "latest": len(written), str(FIRST_MS + gone): following}
    for asked, expected in times.items():
        assert run(OFFSETS, *place, "--time", asked).strip() == f"{TOPIC}:0:{expected}"


def test_dump_log_segments_reads_the_compacted_segments(topic_and_broker: Compacted) -> None:
    server, library, _, kept = topic_and_broker
    server.stop()
    try:
        directory = server.data / f"{TOPIC}-0"
        logs = ",".join(map(str, sorted(directory.glob("*.log"))))
        output = run(DUMP, "--deep-iteration", "--print-data-log", "--files", logs)
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        assert offsets == [each.offset for each in kept]
        assert "isvalid: true" in output
        assert "isvalid: false" not in output
        assert {f"compresscodec: {codec}" in output for codec in CODECS} == {True}
        for suffix in ("index", "timeindex"):
            indexes = sorted(directory.glob(f"*.{suffix}"))
            files = ",".join(str(file) for file in indexes if file.stat().st_size > 0)
            report = run(DUMP, "--index-sanity-check", "--files", files)
            assert report.count("passed sanity check") == len(files.split(","))
            assert "Mismatches" not in run(DUMP, "--verify-index-only", "--files", files)
    finally:
        server.start()
    assert read_all(library, TOPIC) == kept


def test_kafka_delete_records_takes_an_offset_that_was_compacted_away(
    topic_and_broker: Compacted, tmp_path: Path
) -> None:
    server, library, _, _ = topic_and_broker
    name = "compacted-and-deleted"
    library.create_topic(name, config=SMALL_SEGMENTS | {"cleanup.policy": "compact,delete"})
    written = [row._replace(timestamp_ms=time.time_ns() // 1_000_000) for row in changes()[:1_000]]
    write(library, name, written)
    kept = wait_until_compacted(server, library, name)
    active = active_base_offset(server, name)
    left = {each.offset for each in kept}
    gone = next(n for n in range(active // 2, active) if n not in left)
    file = tmp_path / "offsets.json"
    file.write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{name}", "partition": 0, "offset": {gone}}}]}}'
    )
    place = ("--bootstrap-server", server.bootstrap)
    output = run(DELETE_RECORDS, *place, "--offset-json-file", str(file))
    assert f"partition: {name}-0\tlow_watermark: {gone}" in output
    assert library.bounds(name) == (gone, len(written))
    assert read_all(library, name) == [each for each in kept if each.offset >= gone]


def test_streams_restores_its_totals_from_a_compacted_changelog(
    broker: Server, confluent: Confluent, topic: str, tmp_path: Path
) -> None:
    require_java()
    app = TotalsApp(broker.bootstrap, topic, tmp_path)
    now_ms = time.time_ns() // 1_000_000
    inputs = [
        Row(
            CLEAR if number % 97 == 0 else b"%d" % number,
            b"key-%d" % (number % KEYS),
            timestamp_ms=now_ms,
            partition=number % KEYS % PARTITIONS,
        )
        for number in range(2_000)
    ]
    with app.running():
        app.send(inputs)
        app.outputs(len(inputs))
    app.delete_local_state()
    kept = [
        len(wait_until_compacted(broker, confluent, app.changelog, partition))
        for partition in range(PARTITIONS)
    ]
    with app.running() as restored:
        assert restored.totals == totals_of(inputs)
        assert restored.records == sum(kept)
    assert sum(kept) < len(inputs)


def positions(value: int) -> list[dict[str, Any]]:
    """Offsets of a file source for 40 files, as the REST interface of Connect takes them."""
    return [
        {"partition": {"filename": f"file {number} " + "x" * 200}, "offset": {"position": value}}
        for number in range(40)
    ]


def test_connect_starts_from_compacted_topics(
    broker: Server, confluent: Confluent, worker: ConnectWorker, topic: str, tmp_path: Path
) -> None:
    source, deleted = f"source-{topic}", f"deleted-{topic}"
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "no"), "topic": topic}
    with worker.running(deleted, config):
        pass
    with worker.running(source, config):
        for round_ in range(4):
            config["note"] = f"{round_}" * 6_000  # the configs of a few rounds fill a segment
            worker.call("PUT", f"/connectors/{source}/config", config)
        worker.call("PUT", f"/connectors/{source}/stop")
        for round_ in range(4):
            change = {"offsets": positions(round_)}
            worker.call("PATCH", f"/connectors/{source}/offsets", change)
        worker.stop()
        for name in ("config", "offset"):
            wait_until_compacted(broker, confluent, worker.internal_topics[name])
        worker.start()
        assert worker.connectors() == {source}
        stored = worker.call("GET", f"/connectors/{source}/config")
        assert stored == config | {"name": source}
        found = {each["partition"]["filename"]: each["offset"] for each in worker.offsets(source)}
        last = {each["partition"]["filename"]: each["offset"] for each in positions(3)}
        assert found == last
