"""Files on disk: Kafka's DumpLogSegments reads Sawlog's files, and Sawlog serves Kafka's."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sawlog.cli.commands import run
from support.client_libraries.client_library import CODECS, RecordMetadata, Row
from support.client_libraries.confluent_library import Confluent
from support.client_libraries.kafka_python_library import KafkaPython
from support.kafka.kafka_broker import KafkaServer, run_tool, running_kafka
from support.same import check_same
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = pytest.mark.long

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile(
    r"mismatch|corrupt|invalid|exception|error|non-?consecutive|out of order|misordered|"
    r"found timestamp|does not match|sanity",
    re.IGNORECASE,
)
HARMLESS = re.compile(r"passed sanity check|^Non-consecutive offsets in ")
SMALL = {
    "segment.bytes": str(1 << 20),  # the minimum in Kafka
    "index.interval.bytes": "500",
    "retention.ms": "-1",
}
ROWS = 600
CONVERSIONS = (
    ("uncompressed", 0),
    ("gzip", 9),
    ("snappy", 0),
    ("lz4", 1),
    ("lz4", 9),
    ("lz4", 17),
    ("zstd", -131_072),
    ("zstd", 22),
)
"""Compression types with a level, 0 if they have none."""


def rows_for(codec: str) -> list[Row]:
    """Rows for several segments that use every field of a record."""
    random = Random(codec)
    return [
        Row(
            f"{codec} {number} ".encode() + random.randbytes(number * 12) * 2,
            key=None if number % 7 == 0 else b"key-%d" % (number % 20),
            headers=(("number", b"%d" % number),) if number % 3 == 0 else (),
            timestamp_ms=1_700_000_000_000 + number * 1_000,
        )
        for number in range(ROWS)
    ]


def fill(server: SawlogServer | KafkaServer) -> dict[str, list[Row]]:
    """Write a topic for each codec with an idempotent producer, in many small batches."""
    library = Confluent(server.bootstrap)
    written: dict[str, list[Row]] = {}
    for codec in CODECS:
        topic = f"files-{codec}"
        library.create_topic(topic, config=SMALL)
        rows = rows_for(codec)
        placed = KafkaPython(server.bootstrap).produce(topic, rows, codec=codec, idempotent=True)
        assert [each.offset for each in placed] == list(range(ROWS))
        written[topic] = rows
    return written


def segment_files(data: Path, suffix: str) -> list[Path]:
    found = sorted(data.glob(f"files-*-0/*{suffix}"))
    assert found, f"no {suffix} files in {data}"
    return found


def dump(files: list[Path], *options: str) -> str:
    """The output of DumpLogSegments; fails the test if it reports a problem.

    It expects offset 0 in each file and so reports every segment but the first as non-consecutive,
    also in Kafka's files; these reports are ignored.
    """
    names = ",".join(str(path) for path in files)
    done = run_tool(DUMP, "--files", names, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    wrong = [line for line in lines if COMPLAINTS.search(line) and not HARMLESS.search(line)]
    assert wrong == []
    starts = re.findall(r"^  (-?\d+) is followed by (\d+)$", done.stderr, re.MULTILINE)
    bases = {int(path.stem) for path in files}
    assert all(last == "-1" and int(first) in bases for last, first in starts)
    return done.stdout


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of Sawlog after a clean stop."""
    with running_sawlog(tmp_path_factory.mktemp("ours")) as server:
        fill(server)
    return server.data


def test_kafka_reads_all_records_of_our_segments(ours: Path) -> None:
    logs = segment_files(ours, ".log")
    assert len(logs) > 2 * len(CODECS)
    output = dump(logs, "--deep-iteration", "--print-data-log")
    for codec in CODECS:
        assert f"compresscodec: {codec}" in output
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert sorted(offsets) == sorted(list(range(ROWS)) * len(CODECS))
    assert output.count("isvalid: true") > 0
    assert "isvalid: false" not in output


def test_kafka_reads_the_batches_that_sawlog_converted(tmp_path: Path) -> None:
    rows = rows_for("gzip")[:100]
    with running_sawlog(tmp_path) as server:
        library = Confluent(server.bootstrap)
        for codec, level in CONVERSIONS:
            topic = f"converted-{codec}{level}"
            config = {"compression.type": codec}
            if level:
                config[f"compression.{codec}.level"] = str(level)
            library.create_topic(topic, config=config)
            sent_codec = "lz4" if codec == "gzip" else "gzip"
            library.produce(topic, rows, codec=sent_codec, idempotent=True)
            check_same(library.consume(topic, len(rows)), rows)
    logs = sorted(server.data.glob("converted-*-0/*.log"))
    assert len(logs) == len(CONVERSIONS)
    output = dump(logs, "--deep-iteration", "--print-data-log")
    stored = re.findall(r"compresscodec: (\w+)", output)
    assert set(stored) == {"none", "gzip", "snappy", "lz4", "zstd"}
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert sorted(offsets) == sorted(list(range(len(rows))) * len(CONVERSIONS))


def test_our_offset_indexes_pass_kafkas_checks(ours: Path) -> None:
    files = segment_files(ours, ".index")
    output = dump(files, "--index-sanity-check")
    empty = [path for path in files if path.stat().st_size == 0]
    assert output.count("passed sanity check") == len(files) - len(empty)
    entries = re.findall(r"^offset: (\d+) position: (\d+)", dump(files), re.MULTILINE)
    assert len(entries) > len(files)
    dump(files, "--verify-index-only")


def test_our_time_indexes_pass_kafkas_checks(ours: Path) -> None:
    files = segment_files(ours, ".timeindex")
    output = dump(files, "--index-sanity-check")
    assert output.count("passed sanity check") == len(files)
    assert re.search(r"^timestamp: \d+ offset: \d+", dump(files), re.MULTILINE)


def test_kafka_reads_our_producer_snapshots(ours: Path) -> None:
    output = dump(segment_files(ours, ".snapshot"))
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: \d+", output)


def test_kafka_opens_our_partitions(ours: Path, tmp_path: Path) -> None:
    """Kafka recovers and serves segments that Sawlog wrote."""
    with running_kafka(tmp_path / "kafka") as kafka:
        library = Confluent(kafka.bootstrap)
        for codec in CODECS:
            library.create_topic(f"files-{codec}", config=SMALL)
        kafka.stop()
        for codec in CODECS:
            move_segments(ours / f"files-{codec}-0", kafka.data / f"files-{codec}-0")
        (kafka.data / ".kafka_cleanshutdown").unlink()
        (kafka.data / "recovery-point-offset-checkpoint").unlink()
        kafka.start()
        for codec in CODECS:
            check_same(library.consume(f"files-{codec}", ROWS), rows_for(codec))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory of Apache Kafka after a clean stop."""
    with running_kafka(tmp_path_factory.mktemp("theirs")) as server:
        fill(server)
        server.stop()
        yield server.data


def move_segments(source: Path, target: Path) -> None:
    """Replace the segments of one partition by those of another; partition.metadata stays."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, target / path.name)


@pytest.mark.parametrize("stop", ["cleanly", "killed"])
def test_sawlog_serves_partitions_that_kafka_wrote(theirs: Path, tmp_path: Path, stop) -> None:
    with running_sawlog(tmp_path) as sawlog:
        library = Confluent(sawlog.bootstrap)
        for codec in CODECS:
            library.create_topic(f"files-{codec}", config=SMALL)
        sawlog.stop() if stop == "cleanly" else sawlog.kill()
        for codec in CODECS:
            move_segments(theirs / f"files-{codec}-0", sawlog.data / f"files-{codec}-0")
        sawlog.start()
        for codec in CODECS:
            topic = f"files-{codec}"
            assert library.bounds(topic) == (0, ROWS)
            check_same(library.consume(topic, ROWS), rows_for(codec))
            last = library.consume(topic, 100, offset=ROWS - 100)
            check_same(last, rows_for(codec)[-100:])
            assert library.offset_at(topic, 1_700_000_000_000 + 300_500) == 301
            more = library.produce(topic, [Row(b"more")], codec=codec, idempotent=True)
            assert more == [RecordMetadata(0, ROWS)]


def test_sawlog_log_verify_and_dump_read_what_kafka_wrote(theirs: Path) -> None:
    for codec in CODECS:
        directory = theirs / f"files-{codec}-0"
        assert run_cli("log", "verify", str(directory)).returncode == 0
        lines = run_cli("log", "dump", "--records", "--json", str(directory)).stdout.splitlines()
        batches = [json.loads(line) for line in lines]
        assert sum(len(batch["records"]) for batch in batches) == ROWS


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "sawlog.cli.main", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def restored(ours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was restored from a backup of a running broker."""
    directory = tmp_path_factory.mktemp("backup")
    shutil.copytree(ours, directory / "data")
    backup, data = str(directory / "backup"), directory / "restored"
    with running_sawlog(directory) as server:
        options = ["--data", str(server.data), "--bootstrap", server.bootstrap]
        assert run(["backup", "create", backup, *options]) == 0
    assert run(["backup", "restore", backup, "--data", str(data)]) == 0
    return data


def test_kafka_reads_restored_segments_and_their_indexes(ours: Path, restored: Path) -> None:
    logs = segment_files(restored, ".log")
    assert [path.name for path in logs] == [path.name for path in segment_files(ours, ".log")]
    output = dump(logs, "--deep-iteration")
    assert len(re.findall(r"^\| offset: \d+", output, re.MULTILINE)) == ROWS * len(CODECS)
    assert "isvalid: false" not in output
    indexes = segment_files(restored, ".index") + segment_files(restored, ".timeindex")
    filled = [path for path in indexes if path.stat().st_size]
    assert len(filled) > len(logs)
    output = dump([*indexes, *segment_files(restored, ".snapshot")], "--index-sanity-check")
    assert output.count("passed sanity check") == len(filled)
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: \d+", output)
