"""`sawlog log dump` and `verify` on valid, truncated, corrupt and preallocated files."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from sawlog.cli.commands import run
from sawlog.log_inspection.log_verifier import verify_logs
from sawlog.log_inspection.segment_reader import find_segments
from sawlog.protocol.compression import Codec
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import Record, build_batch
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.transaction_index import encode_aborted

NAME = "00000000000000000000.log"


def batch(base_offset: int, count: int = 3, **arguments: Any) -> bytearray:
    records = [Record(0, 1_000 + base_offset, b"k%d" % n, b"v" * 20) for n in range(count)]
    return build_batch(records, base_offset=base_offset, **arguments)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "data" / "logs-0"
    directory.mkdir(parents=True)
    return directory


def write(partition: Path, *batches: bytes | bytearray, name: str = NAME) -> list[int]:
    """Write a segment; return the positions of its batches."""
    positions = []
    data = b""
    for piece in batches:
        positions.append(len(data))
        data += piece
    (partition / name).write_bytes(data)
    return positions


def verify(
    path: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, Any]]:
    code = run(["log", "verify", str(path), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_verify_counts_segments_batches_and_records(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), batch(3, codec=Codec.ZSTD))
    write(partition, batch(6), name="00000000000000000006.log")
    code, found = verify(partition.parent, capsys)
    assert code == 0
    assert (found["segments"], found["batches"], found["records"]) == (2, 3, 9)
    assert found["problems"] == []


@pytest.mark.parametrize("codec", Codec)
def test_verify_finds_a_flipped_byte_and_reads_the_rest(
    codec: Codec, partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = batch(3, codec=codec)
    broken[-1] ^= 1
    positions = write(partition, batch(0), broken, batch(6))
    code, found = verify(partition, capsys)
    assert code == 1
    (problem,) = found["problems"]
    assert (problem["position"], problem["offset"]) == (positions[1], 3)
    assert "CRC" in problem["problem"]
    assert found["batches"] == 2


@pytest.mark.parametrize("kept", [8, 30, 61, 100])
def test_verify_finds_a_torn_tail(
    kept: int, partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = write(partition, batch(0), batch(3)[:kept])
    code, found = verify(partition, capsys)
    assert code == 1
    (problem,) = found["problems"]
    assert (problem["position"], problem["offset"]) == (positions[1], 3)
    assert "truncated" in problem["problem"]


def test_after_an_invalid_length_reading_resumes_at_the_next_index_entry(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = batch(3)
    broken[8:12] = b"\xff\xff\xff\xff"
    positions = write(partition, batch(0), broken, batch(6))
    (partition / NAME).with_suffix(".index").write_bytes(struct.pack(">ii", 8, positions[2]))
    code, found = verify(partition, capsys)
    assert code == 1
    (problem,) = found["problems"]
    assert (problem["position"], problem["offset"]) == (positions[1], 3)
    assert f"{len(broken)} bytes skipped" in problem["problem"]
    assert found["batches"] == 2


def test_preallocated_zeros_are_not_a_problem(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), bytes(100_000))
    (partition / NAME).with_suffix(".index").write_bytes(bytes(80))
    (partition / NAME).with_suffix(".timeindex").write_bytes(bytes(120))
    code, found = verify(partition, capsys)
    assert (code, found["problems"]) == (0, [])


def test_verify_finds_descending_offsets(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), batch(3), batch(4))
    write(partition, batch(5), name="00000000000000000005.log")
    code, found = verify(partition, capsys)
    assert code == 1
    assert [problem["offset"] for problem in found["problems"]] == [6, 5]


def test_headers_only_does_not_parse_records(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = batch(0)
    odd[57:61] = struct.pack(">i", 2)  # the record count, one too low
    odd[17:21] = struct.pack(">I", crc32c(bytes(odd[21:])))
    write(partition, odd)
    assert verify(partition, capsys)[0] == 1
    assert verify(partition, capsys, "--headers-only")[0] == 0


def test_verify_finds_an_index_entry_without_a_batch(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = write(partition, batch(0), batch(3))
    index = (partition / NAME).with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 2, 0, 5, positions[1] + 1))
    code, found = verify(partition, capsys)
    assert code == 1
    assert [(d["file"], d["position"]) for d in found["problems"]] == [(str(index), 8)]


def test_verify_finds_a_time_index_entry_beyond_the_segment(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    path = (partition / NAME).with_suffix(".timeindex")
    path.write_bytes(struct.pack(">qiqi", 1_000, 2, 2_000, 3))
    code, found = verify(partition, capsys)
    assert code == 1
    assert [problem["position"] for problem in found["problems"]] == [12]


def test_verify_checks_the_crc_of_a_producer_snapshot(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    body = bytes(4)
    path = partition / "00000000000000000003.snapshot"
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    assert verify(partition, capsys)[0] == 0
    path.write_bytes(struct.pack(">hI", 1, 0) + body)
    code, found = verify(partition, capsys)
    assert code == 1
    assert found["problems"][0]["file"] == str(path)


def checkpoint(partition: Path, end: int) -> None:
    path = partition.parent / "recovery-point-offset-checkpoint"
    path.write_text(f"0\n1\nlogs 0 {end}\n")


def write_index(partition: Path, positions: list[int]) -> None:
    entries = [struct.pack(">ii", 3 * n, p) for n, p in enumerate(positions) if n]
    (partition / NAME).with_suffix(".index").write_bytes(b"".join(entries))


LOSSES = {
    "emptied": lambda log: log.write_bytes(b""),
    "zeroed": lambda log: log.write_bytes(bytes(log.stat().st_size)),
    "cut": lambda log: log.write_bytes(log.read_bytes()[:5]),
    "deleted": lambda log: log.unlink(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("witness", ["checkpoint", "snapshot", "index"])
def test_verify_finds_a_lost_log_by_the_remaining_files(
    loss: str, witness: str, partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = write(partition, *(batch(3 * n) for n in range(4)))
    if witness == "checkpoint":
        checkpoint(partition, 12)
    elif witness == "snapshot":
        body = bytes(4)
        data = struct.pack(">hI", 1, crc32c(body)) + body
        (partition / "00000000000000000012.snapshot").write_bytes(data)
    else:
        write_index(partition, positions)
    assert verify(partition.parent, capsys)[0] == 0
    LOSSES[loss](partition / NAME)
    code, found = verify(partition.parent, capsys)
    assert code == 1
    assert len(found["problems"]) == 1
    expected = {"index": "its index"}.get(witness, "the log ends at 0")
    assert expected in found["problems"][0]["problem"]


def test_a_checkpoint_older_than_the_partition_is_ignored(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    checkpoint(partition, 12)
    os.utime(partition.parent / "recovery-point-offset-checkpoint", (1, 1))
    (partition / "partition.metadata").write_text("")
    assert verify(partition.parent, capsys)[0] == 0


def test_verify_finds_a_missing_segment_unless_the_log_was_compacted(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    write(partition, batch(6), name="00000000000000000006.log")
    checkpoint(partition, 9)
    code, found = verify(partition.parent, capsys)
    assert code == 1
    assert [problem["offset"] for problem in found["problems"]] == [3]
    (partition.parent / "cleaner-offset-checkpoint").write_text("0\n1\nlogs 0 9\n")
    assert verify(partition.parent, capsys)[0] == 0


def test_invalid_entries_of_an_index_are_one_problem(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), batch(3))
    write_index(partition, [0, 1_000, 2_000, 3_000])
    code, found = verify(partition, capsys)
    assert code == 1
    (problem,) = found["problems"]
    assert problem["problem"].endswith("2 more invalid entries")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_directory_is_a_problem(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    partition.chmod(0)
    try:
        code, found = verify(partition.parent, capsys)
    finally:
        partition.chmod(0o700)
    assert (code, len(found["problems"])) == (1, 1)
    assert "Permission denied" in found["problems"][0]["problem"]


def test_a_snapshot_deleted_during_verify_is_ignored(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0))
    (partition / "00000000000000000003.snapshot").symlink_to(partition / "nothing")
    code, found = verify(partition, capsys)
    assert (code, found["problems"]) == (0, [])


class DeletingProgress:
    """Deletes a partition while another one is verified, as a running broker may."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def advance(self, _: int) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


@pytest.mark.parametrize("is_early", [True, False])
def test_a_partition_deleted_during_verify_is_ignored(partition: Path, is_early: bool) -> None:
    write(partition, batch(0))
    deleted = partition.parent / "other-0"
    deleted.mkdir()
    write(deleted, batch(0))
    (partition.parent / "recovery-point-offset-checkpoint").write_text(
        "0\n2\nlogs 0 3\nother 0 3\n"
    )
    found = find_segments(partition.parent)
    deleting = DeletingProgress(deleted)
    if is_early:
        deleting.advance(0)
    result = verify_logs(found, read_records=True, progress=deleting)
    assert (result.records, result.problems) == (3, [])


def test_verify_prints_one_line_per_problem_and_a_summary(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), batch(3)[:70])
    assert run(["log", "verify", str(partition)]) == 1
    first, summary = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{partition / NAME}: position ")
    assert summary == "1 segment, 1 valid batch, 3 records, 148 bytes, 1 problem"


def dump(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[Any]:
    assert run(["log", "dump", str(path), "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_dump_prints_batches_with_positions_and_offsets(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = write(partition, batch(0), batch(3, codec=Codec.LZ4, producer_id=7), batch(6))
    found = dump(partition, capsys)
    assert [entry["position"] for entry in found] == positions
    assert [(e["base_offset"], e["last_offset"], e["count"]) for e in found] == [
        (0, 2, 3),
        (3, 5, 3),
        (6, 8, 3),
    ]
    assert [entry["codec"] for entry in found] == ["none", "lz4", "none"]
    assert found[0]["partition"] == "logs-0"


def test_dump_prints_records_from_an_offset(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(partition, batch(0), batch(3), batch(6))
    (entry,) = dump(partition, capsys, "--records", "--from", "4", "-n", "1")
    assert [record["offset"] for record in entry["records"]] == [3, 4, 5]
    assert entry["records"][0]["key"] == "k0"


def test_dump_prints_problems_in_file_order(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = batch(3)
    broken[-1] ^= 1
    write(partition, batch(0), broken, batch(6)[:50])
    found = dump(partition, capsys)
    assert [entry.get("crc") for entry in found] == ["ok", "wrong", None]
    assert "truncated" in found[2]["problem"]


def test_dump_prints_index_entries(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = partition / "00000000000000000100.index"
    index.write_bytes(struct.pack(">iiii", 5, 70, 9, 140))
    assert dump(index, capsys) == [
        {"offset": 105, "position": 70},
        {"offset": 109, "position": 140},
    ]
    times = partition / "00000000000000000100.timeindex"
    times.write_bytes(struct.pack(">qi", 1_000, 5))
    assert len(dump(index, capsys, "-n", "1")) == 1
    (entry,) = dump(times, capsys)
    assert (entry["timestamp"], entry["offset"]) == (1_000, 105)


# Transactions

TRANSACTION_INDEX = NAME.replace(".log", ".txnindex")


def write_transactions(partition: Path, *entries: tuple[int, int, int, int]) -> None:
    """Producer 5 aborts offsets 0-2 at 3, producer 6 commits 4-6 at 7."""
    pieces = []
    for producer_id, offset, outcome in ((5, 0, ControlType.ABORT), (6, 4, ControlType.COMMIT)):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
        pieces.append(batch(offset, base_sequence=0, **fields))
        marker = marker_batch(EndTransactionMarker(outcome, 9), producer_id, 0, 1_000)
        stamp(memoryview(marker), offset + 3, 0)
        pieces.append(marker)
    write(partition, *pieces)
    (partition / NAME.replace(".log", ".index")).write_bytes(b"")
    data = encode_aborted(AbortedTransaction(*entry) for entry in entries)
    (partition / TRANSACTION_INDEX).write_bytes(data)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        pytest.param([(5, 0, 3, 4)], None, id="right"),
        pytest.param([(5, 0, 3, 4), (6, 9, 10, 11)], None, id="written since"),
        pytest.param([], "no entry for the abort marker of producer 5", id="missing"),
        pytest.param([(5, 0, 3, 4), (6, 4, 7, 8)], "no abort marker of producer 6", id="commit"),
        pytest.param([(6, 0, 3, 4)], "no abort marker of producer 6", id="producer"),
        pytest.param([(5, 3, 3, 4)], "from offset 3 to 3", id="range"),
    ],
)
def test_verify_compares_the_transaction_index_with_the_markers(
    partition: Path,
    capsys: pytest.CaptureFixture[str],
    entries: list[tuple[int, int, int, int]],
    reason: str | None,
) -> None:
    write_transactions(partition, *entries)
    code, found = verify(partition, capsys)
    if reason is None:
        assert (code, found["problems"]) == (0, [])
    else:
        assert code == 1
        assert reason in found["problems"][0]["problem"]


def test_dump_prints_markers_and_aborted_transactions(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_transactions(partition, (5, 0, 3, 4))
    assert run(["log", "dump", str(partition), "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    markers = [(e["marker"], e["coordinator_epoch"]) for e in entries if "control" in e]
    assert markers == [("ABORT", 9), ("COMMIT", 9)]
    assert run(["log", "dump", str(partition / TRANSACTION_INDEX)]) == 0
    assert capsys.readouterr().out == (
        "version=0 producer_id=5 first_offset=0 last_offset=3 last_stable_offset=4\n"
    )
