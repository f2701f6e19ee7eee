"""Flipped and missing bytes in every kind of file, and the outcome of each.

the log at or above the recovery point   truncated at the first bad batch, with a log line
the log below it                         nothing is truncated; `sawlog log verify` names it
index, time index, producer snapshot     rebuilt from the log
checkpoints, epochs, the clean marker    ignored; the log is read instead
the journal of the store                 a torn tail is truncated; other damage stops the start
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.client_libraries.client_library import BrokerError
from support.client_libraries.confluent_library import Confluent
from support.same import check_same
from support.server.broker_process import SawlogServer
from support.storage.damage import (
    BATCHES,
    CORRUPTIONS,
    FIRST_TIME_MS,
    PARTITION,
    RECORDS,
    RECORDS_A_BATCH,
    TOPIC,
    DataDirectory,
    Producer,
    batches_of,
    cut,
    flip,
    recovery_point,
    segments,
    value_of,
    write_data_directory,
)

HEADER_BYTES = 61
Start = Callable[[], SawlogServer]
COMMON = ("one byte flipped", "gone")
CORRUPTION_PARAMS = [
    pytest.param(name, marks=() if name in COMMON else pytest.mark.long, id=name)
    for name in CORRUPTIONS
]


@pytest.fixture(scope="module", params=["stopped", "killed"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> DataDirectory:
    directory = tmp_path_factory.mktemp(request.param)
    return write_data_directory(directory, is_killed=request.param == "killed")


@pytest.fixture
def data(written: DataDirectory, tmp_path: Path) -> Path:
    """A copy of the data directory, to spoil."""
    target = tmp_path / "data"
    shutil.copytree(written.data, target)
    return target


@pytest.fixture
def start(data: Path) -> Iterator[Start]:
    """Starts a broker on the spoilt directory."""
    servers: list[SawlogServer] = []

    def begin() -> SawlogServer:
        servers.append(SawlogServer(data.parent))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


def check_records(server: SawlogServer, *ranges: range) -> None:
    """These offsets have the records that were written there."""
    library = Confluent(server.bootstrap)
    for wanted in ranges:
        rows = library.consume(TOPIC, len(wanted), offset=wanted.start)
        check_same([row.value for row in rows], [value_of(offset) for offset in wanted])


def bounds(server: SawlogServer) -> tuple[int, int]:
    return Confluent(server.bootstrap).bounds(TOPIC)


def verify(data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sawlog.cli.main", "log", "verify", str(data)]
    return subprocess.run(command, capture_output=True, text=True)


def batch_above_the_recovery_point(data: Path, from_the_end: int) -> tuple[Path, int, int]:
    """File, position and base offset of a batch of the last segment."""
    path = segments(data)[-1]
    position, header = batches_of(path)[-from_the_end]
    assert header.base_offset >= recovery_point(data)
    return path, position, header.base_offset


@pytest.mark.parametrize("written", ["killed"], indirect=True)
class TestTheLogAboveTheRecoveryPoint:
    @pytest.mark.parametrize("where", [0, 8, 16, 17, 21, 40, HEADER_BYTES + 100])
    def test_a_flipped_byte_ends_the_log_there(self, data: Path, start: Start, where: int) -> None:
        path, position, offset = batch_above_the_recovery_point(data, from_the_end=3)
        flip(path, position + where)
        server = start()
        assert bounds(server) == (0, offset)
        check_records(server, range(offset))
        assert "torn" in server.process.output
        assert str(offset) in server.process.output

    @pytest.mark.parametrize("left", [1, HEADER_BYTES, HEADER_BYTES + 500])
    def test_a_torn_batch_is_cut(
        self, data: Path, start: Start, written: DataDirectory, left: int
    ) -> None:
        path, position, offset = batch_above_the_recovery_point(data, from_the_end=1)
        cut(path, position + left)
        server = start()
        assert bounds(server) == (0, offset)
        number = offset // RECORDS_A_BATCH
        assert Producer(server, written.producer_id).send(number) == [offset]
        check_records(server, range(offset + RECORDS_A_BATCH))

    @pytest.mark.parametrize("tail", [b"\0" * 5_000, b"\xff" * 100, b"\0"])
    def test_bytes_after_the_last_batch_that_are_no_batch_are_truncated(
        self, data: Path, start: Start, tail: bytes
    ) -> None:
        path = segments(data)[-1]
        path.write_bytes(path.read_bytes() + tail)
        server = start()
        assert bounds(server) == (0, RECORDS)
        check_records(server, range(RECORDS))


class TestTheLogBelowTheRecoveryPoint:
    def test_a_flipped_byte_costs_its_batch_and_no_other(self, data: Path, start: Start) -> None:
        path = segments(data)[0]
        position, header = batches_of(path)[5]
        flip(path, position + HEADER_BYTES + 100)
        sizes = [each.stat().st_size for each in segments(data)]
        server = start()
        assert bounds(server) == (0, RECORDS)
        check_records(server, range(header.base_offset))
        check_records(server, range(header.last_offset + 1, RECORDS))
        assert [each.stat().st_size for each in segments(data)] == sizes

    def test_a_flipped_length_hides_at_most_the_way_to_the_next_index_entry(
        self, data: Path, start: Start
    ) -> None:
        path = segments(data)[0]
        position, header = batches_of(path)[5]
        flip(path, position + 8)
        server = start()
        assert bounds(server) == (0, RECORDS)
        check_records(server, range(header.base_offset), range(header.base_offset + 100, RECORDS))
        with pytest.raises((BrokerError, AssertionError)):
            check_records(server, range(header.base_offset, header.base_offset + 1))

    def test_records_cut_off_a_closed_segment_cost_no_others(
        self, data: Path, start: Start
    ) -> None:
        first, second = segments(data)[:2]
        position, header = batches_of(first)[-2]
        cut(first, position + 100)
        server = start()
        assert bounds(server) == (0, RECORDS)
        check_records(server, range(header.base_offset), range(int(second.stem), RECORDS))

    @pytest.mark.parametrize("place", [8, HEADER_BYTES + 100])
    def test_verify_names_the_file_and_the_offset(self, data: Path, place: int) -> None:
        assert verify(data).returncode == 0
        path = segments(data)[0]
        position, header = batches_of(path)[5]
        flip(path, position + place)
        found = verify(data)
        assert found.returncode == 1
        assert path.name.removesuffix(".log").lstrip("0") in found.stdout
        assert str(header.base_offset) in found.stdout


@pytest.mark.parametrize("spoil", CORRUPTION_PARAMS)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_made_again(data: Path, start: Start, suffix: str, spoil: str) -> None:
    for path in segments(data, suffix):
        CORRUPTIONS[spoil](path)
    server = start()
    assert bounds(server) == (0, RECORDS)
    middle = RECORDS // 2
    check_records(server, range(middle, middle + 50), range(RECORDS - 5, RECORDS), range(7, 30))
    library = Confluent(server.bootstrap)
    for number in (0, 1, BATCHES // 2, BATCHES - 1):
        assert library.offset_at(TOPIC, FIRST_TIME_MS + number) == number * RECORDS_A_BATCH
    assert library.offset_at(TOPIC, FIRST_TIME_MS + BATCHES) is None


@pytest.mark.parametrize("spoil", CORRUPTION_PARAMS)
def test_producer_state_is_made_again(
    data: Path, start: Start, written: DataDirectory, spoil: str
) -> None:
    for path in segments(data, ".snapshot"):
        CORRUPTIONS[spoil](path)
    producer = Producer(start(), written.producer_id)
    last = BATCHES - 1
    assert producer.send(last, last - 4) == [last * 10, (last - 4) * 10]  # known: not appended
    assert producer.send(BATCHES) == [RECORDS]


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
    f"{PARTITION}/leader-epoch-checkpoint",
    f"{PARTITION}/partition.metadata",
)
CLEAN_MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize("spoil", CORRUPTION_PARAMS)
@pytest.mark.parametrize(
    ("written", "name"),
    [
        *(("killed", name) for name in CHECKPOINTS),
        *(("stopped", name) for name in (*CHECKPOINTS, CLEAN_MARKER)),
    ],
    indirect=["written"],
)
def test_checkpoints_are_not_believed_blindly(
    data: Path, start: Start, name: str, spoil: str
) -> None:
    CORRUPTIONS[spoil](data / name)
    server = start()
    assert bounds(server) == (0, RECORDS)
    check_records(server, range(RECORDS))


def test_all_small_files_may_be_gone(data: Path, start: Start) -> None:
    for name in (*CHECKPOINTS, CLEAN_MARKER):
        (data / name).unlink(missing_ok=True)
    for suffix in (".index", ".timeindex", ".snapshot"):
        for path in segments(data, suffix):
            path.unlink()
    server = start()
    assert bounds(server) == (0, RECORDS)
    check_records(server, range(RECORDS))


def test_a_recovery_point_beyond_the_log_is_not_believed(data: Path, start: Start) -> None:
    checkpoint = data / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n1\n{TOPIC} 0 {RECORDS * 10}\n")
    server = start()
    assert bounds(server) == (0, RECORDS)
    check_records(server, range(RECORDS))


def test_another_brokers_directory_is_refused(data: Path) -> None:
    path = data / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=7"))
    assert "belongs to node 7" in refusal(data)


class TestTheJournalOfTheStore:
    def journal(self, data: Path) -> Path:
        return sorted(data.glob("store.journal.*"))[-1]

    @pytest.mark.parametrize("tail", [b"\0" * 100, b"SWJ1\0\0\0\x50torn", b"\xff"])
    def test_a_torn_end_is_cut(self, data: Path, start: Start, tail: bytes) -> None:
        path = self.journal(data)
        path.write_bytes(path.read_bytes() + tail)
        server = start()
        check_records(server, range(RECORDS))
        Confluent(server.bootstrap).create_topic("another")

    def test_damage_stops_the_start_and_nothing_is_touched(self, data: Path) -> None:
        path = self.journal(data)
        flip(path, path.stat().st_size // 4)
        spoilt = path.read_bytes()
        words = refusal(data)
        assert path.name in words
        assert "damaged" in words
        assert path.read_bytes() == spoilt
        assert len(segments(data)) > 3
        flip(path, path.stat().st_size // 4)
        server = SawlogServer(data.parent)
        check_records(server, range(RECORDS))
        server.stop()

    def test_without_it_the_logs_are_not_taken_for_nobodys(self, data: Path) -> None:
        for path in data.glob("store.*"):
            path.unlink()
        assert "store is missing" in refusal(data)
        assert len(segments(data)) > 3


def refusal(data: Path) -> str:
    """What a broker says that does not start; it ends by itself, with a code that says so."""
    server = SawlogServer(data.parent, is_started=False)
    server.launch()
    code = server.process.wait()
    assert code not in (0, -9)
    assert "Traceback" not in server.process.output
    return server.process.output
