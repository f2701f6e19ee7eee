"""Compaction of transactions: aborted records go, markers in time, readers see no difference."""

from random import Random

import pytest

from sawlog.protocol.record_batch import DELETE_HORIZON, BatchHeader, batches_in, read_header
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.storage.cleaner.offset_map import ENTRY_BYTES
from sawlog.storage.log import Log
from sawlog.storage.log_files import TRANSACTION_INDEX
from support.storage.compaction import CompactedStorage, compacted
from support.storage.logs import headers_in, read
from support.storage.transactions import ABORT, COMMIT, append_marker

DAY_MS = 86_400_000


def send(log: Log, producer_id: int, *pairs: tuple[str, str | None], sequence: int = 0) -> None:
    contents = [
        Record(0, 1_700_000_000_000, key.encode(), None if value is None else value.encode())
        for key, value in pairs
    ]
    batch = build_batch(
        contents,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    guard = log.begin_verification(producer_id, sequence, 0, supports_epoch_bump=False)
    log.append(memoryview(batch), read_header(batch), 0, guard=guard)


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """What a read_committed consumer of the whole log has in the end, by key."""
    found: dict[bytes | None, bytes | None] = {}
    offset = log.start_offset
    aborting: dict[int, int] = {}
    while offset < log.last_stable_offset and (piece := read(log, offset)) is not None:
        data = piece.read()
        end = log.segments.offset_after(piece, offset, log.end_offset)
        listed = log.aborted_transactions(offset, end)
        for position, header in batches_in(data):
            if header.base_offset >= log.last_stable_offset:
                return found
            for entry in listed:
                if entry.first_offset <= header.last_offset <= entry.last_offset:
                    aborting[entry.producer_id] = entry.last_offset
            is_aborted = header.is_transactional and header.last_offset <= aborting.get(
                header.producer_id, -1
            )
            if not header.is_control and not is_aborted:
                batch = data[position : position + header.size]
                for record in iterate(batch, max_decompressed_bytes=1 << 20):
                    if record.value is None:
                        found.pop(record.key, None)
                    else:
                        found[record.key] = record.value
            offset = header.next_offset
    return found


def roll(storage: CompactedStorage, key: str = "filler") -> None:
    """Begin a new segment."""
    storage.put((key, "x" * 700))


def control_batches(log: Log) -> list[BatchHeader]:
    return [header for header in headers_in(log) if header.is_control]


@pytest.fixture
def storage() -> CompactedStorage:
    return CompactedStorage()


def test_aborted_records_go_and_replace_nothing(storage: CompactedStorage) -> None:
    storage.put(("a", "1"), ("b", "1"))
    send(storage.log, 5, ("a", "2"))
    append_marker(storage.log, ABORT, producer_id=5)
    send(storage.log, 6, ("b", "2"))
    append_marker(storage.log, COMMIT, producer_id=6)
    roll(storage)
    roll(storage)
    storage.settle()
    before = committed(storage.log)
    storage.clean()
    assert committed(storage.log) == before
    assert (before[b"a"], before[b"b"]) == (b"1", b"2")
    (aborted,) = [h for h in headers_in(storage.log) if h.producer_id == 5 and not h.is_control]
    assert aborted.count == 0  # it has the last sequence of an active producer
    assert [h.count for h in control_batches(storage.log)] == [1, 1]


def test_a_marker_goes_after_its_records_and_its_delete_horizon(storage: CompactedStorage) -> None:
    send(storage.log, 5, ("a", "2"))
    append_marker(storage.log, ABORT, producer_id=5)
    send(storage.log, 5, ("a", "3"), sequence=1)  # the aborted batch is not the last one
    append_marker(storage.log, ABORT, producer_id=5)
    roll(storage)
    roll(storage)
    storage.settle()
    storage.clean()
    assert len(control_batches(storage.log)) == 2
    roll(storage)
    roll(storage)
    storage.settle()
    storage.clean()
    first, second = control_batches(storage.log)
    assert first.attributes & DELETE_HORIZON
    assert not second.attributes & DELETE_HORIZON  # its empty batch keeps the sequence
    storage.schedule.run_for(DAY_MS)
    roll(storage)
    roll(storage)
    storage.settle()
    storage.clean()
    assert [h.base_offset for h in control_batches(storage.log)] == [second.base_offset]


def test_the_last_marker_keeps_the_epoch_of_its_producer(storage: CompactedStorage) -> None:
    append_marker(storage.log, COMMIT, producer_id=5, epoch=4)
    for _ in range(3):
        roll(storage)
        roll(storage)
        storage.settle()
        storage.clean()
        storage.schedule.run_for(DAY_MS // 4)
    assert [h.producer_epoch for h in control_batches(storage.log)] == [4]
    storage.recover()
    assert storage.log.producer_states.states[5].epoch == 4


def test_an_open_transaction_bounds_the_cleaning(storage: CompactedStorage) -> None:
    for number in range(4):
        roll(storage, "a")
        if number == 1:
            send(storage.log, 5, ("a", "open"))
    roll(storage, "a")
    storage.settle()
    storage.clean()
    open_offset = storage.log.first_unstable_offset
    assert open_offset is not None
    kept = [h.base_offset for h in headers_in(storage.log) if h.count]
    assert kept == [1, open_offset, 3, 4, 5]


def test_the_index_has_the_transactions_whose_batches_are_left(storage: CompactedStorage) -> None:
    send(storage.log, 5, ("a", "2"))
    append_marker(storage.log, ABORT, producer_id=5)
    roll(storage)
    roll(storage)
    storage.settle()
    before = storage.log.aborted_transactions(0, storage.log.end_offset)
    storage.clean()
    assert storage.log.aborted_transactions(0, storage.log.end_offset) == before
    storage.recover()
    assert storage.log.aborted_transactions(0, storage.log.end_offset) == before
    assert len(storage.names(TRANSACTION_INDEX)) == 1


@pytest.mark.parametrize("seed", range(15))
def test_a_read_committed_consumer_sees_no_difference(seed: int) -> None:
    random = Random(seed)
    storage = CompactedStorage(
        compacted(segment_bytes=500, delete_retention_ms=100_000),
        seed=seed,
        dedupe_buffer_size=random.choice((4, 1_000)) * ENTRY_BYTES,
        io_buffer_load_factor=1.0,
    )
    sequences = dict.fromkeys(range(4), 0)
    for _ in range(12):
        for _ in range(random.randint(5, 25)):
            producer_id = random.randrange(4)
            match random.choices(range(3), (6, 3, 2))[0]:
                case 0:
                    pairs = [
                        (f"k{random.randrange(8)}", random.choice((None, f"{random.random()}")))
                        for _ in range(random.randint(1, 3))
                    ]
                    send(storage.log, producer_id, *pairs, sequence=sequences[producer_id])
                    sequences[producer_id] += len(pairs)
                case 1:
                    append_marker(storage.log, random.choice((ABORT, COMMIT)), producer_id)
                case 2:
                    storage.put((f"k{random.randrange(8)}", f"{random.random()}"))
        storage.settle()
        before, stable = committed(storage.log), storage.log.last_stable_offset
        storage.clean()
        assert (committed(storage.log), storage.log.last_stable_offset) == (before, stable)
        if random.random() < 0.3:
            storage.restart()
        elif random.random() < 0.3:
            storage.recover()
        assert (committed(storage.log), storage.log.last_stable_offset) == (before, stable)


def test_a_cleaning_that_begins_inside_a_segment_keeps_committed_records() -> None:
    """A map without room for all keys ends inside a segment, after a transaction was aborted."""
    storage = CompactedStorage(
        compacted(segment_bytes=2_000),
        dedupe_buffer_size=3 * ENTRY_BYTES,
        io_buffer_load_factor=1.0,
    )
    send(storage.log, 5, ("a", "aborted"))
    append_marker(storage.log, ABORT, producer_id=5)
    storage.put(("b", "1"), ("c", "1"), ("d", "1"))
    send(storage.log, 5, ("e", "committed"), sequence=1)
    append_marker(storage.log, COMMIT, producer_id=5)
    storage.put(("f", "x" * 1_800))
    storage.settle()
    before = committed(storage.log)
    storage.clean()
    assert committed(storage.log) == before
    assert before[b"e"] == b"committed"
