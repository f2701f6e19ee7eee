"""A compacted log against a model: a dictionary of the last value of every key."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, iterate
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.cleaner.offset_map import ENTRY_BYTES
from sawlog.storage.leader_epochs import LeaderEpochs
from sawlog.storage.log import Log
from sawlog.storage.log_config import FOREVER, LogConfig
from sawlog.storage.producer_state import ProducerStates
from support.storage.logs import SimulatedStorage, append, headers_in, read
from support.tiers import rounds

BACKOFF_MS = 1_000
DELETE_RETENTION_MS = 20_000
CONFIG = LogConfig(
    segment_bytes=1_100,
    segment_ms=10_000,
    index_interval_bytes=100,
    segment_index_bytes=200,
    delete_retention_ms=DELETE_RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
    producer_id_expiration_ms=FOREVER,
)
POLICIES = {"compact": frozenset({"compact"}), "delete": frozenset({"delete"})}
LONG_KEY = b"a key that is longer than the cleaner keeps as it is " * 2
KEYS = (b"a", b"b", b"", LONG_KEY, LONG_KEY + b"!")
INTERRUPTIONS = (
    "nothing",
    "kill",
    "lose power",
    "restart",
    "truncate",
    "delete records",
    "change policy",
)


@dataclass(frozen=True)
class Written:
    """A record that was appended and neither truncated nor lost."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    appended_ms: int
    batch: "Batch"


@dataclass(frozen=True)
class Batch:
    base_offset: int
    next_offset: int
    epoch: int
    producer_id: int
    next_sequence: int


def records_in(log: Log) -> Iterator[Record]:
    """All records from the log start offset on, read as a consumer does."""
    offset = log.start_offset
    while (piece := read(log, offset)) is not None:
        data = piece.read()
        for position, header in batches_in(data):
            batch = data[position : position + header.size]
            for record in iterate(batch, max_decompressed_bytes=1 << 20):
                if record.offset >= log.start_offset:
                    yield record
            offset = header.next_offset


class CompactionMachine(RuleBasedStateMachine):
    """`history` holds every record by its offset, compacted away or not; `gone` the offsets that a
    reader has found missing, which must stay missing."""

    @initialize(
        seed=st.integers(0, 2**32),
        keys_in_map=st.sampled_from([2, 1_000]),
        delete_delay_ms=st.sampled_from([0, 5_000]),
    )
    def open_storage(self, seed: int, keys_in_map: int, delete_delay_ms: int) -> None:
        cleaner = CleanerConfig(
            dedupe_buffer_size=ENTRY_BYTES * keys_in_map,
            io_buffer_load_factor=1.0,
            io_buffer_size=2_048,
            backoff_ms=BACKOFF_MS,
        )
        config = replace(
            CONFIG, cleanup_policy=POLICIES["compact"], file_delete_delay_ms=delete_delay_ms
        )
        self.storage = SimulatedStorage(config, seed=seed, cleaner=cleaner)
        self.history: dict[int, Written] = {}
        self.batches: list[Batch] = []
        self.gone: set[int] = set()
        self.end_offset = 0
        self.start_offset = 0
        self.highest_start = 0
        self.flushed = 0
        self.committed = 0  # the highest high watermark
        self.cleaned_below = 0
        self.epoch = 0
        self.count = 0
        self.shortened: set[int] = set()  # producers that lost batches at the end of the log
        self.log.assign_epoch(0)

    @property
    def log(self) -> Log:
        return self.storage.log

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.storage.config.cleanup_policy

    # Operations

    @rule(
        entries=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=16),
        batch_size=st.integers(1, 4),
        size=st.integers(0, 120),
        producer_id=st.sampled_from([-1, 7, 8]),
        codec=st.sampled_from(list(Codec)),
        later_ms=st.integers(-5, 20),
    )
    def append(
        self,
        entries: list[tuple[bytes, bool]],
        batch_size: int,
        size: int,
        producer_id: int,
        codec: Codec,
        later_ms: int,
    ) -> None:
        """Append keys with a value or a tombstone; before the topic is compacted, some keys are
        left out."""
        for first in range(0, len(entries), batch_size):
            contents = []
            for number, (key, is_deleted) in enumerate(entries[first : first + batch_size]):
                self.count += 1
                value = None if is_deleted else b"%d:" % self.count + bytes(size)
                is_keyless = not self.is_compacted and self.count % 3 == 0
                timestamp = self.storage.now_ms + later_ms + number
                contents.append(Record(number, timestamp, None if is_keyless else key, value))
            self._append(contents, producer_id, codec)

    def _append(self, contents: list[Record], producer_id: int, codec: Codec) -> None:
        state = self.log.producer_states.states.get(producer_id)
        sequence = state.batches[-1].last_sequence + 1 if state else 0
        known = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        options: dict[str, object] = {"codec": codec, **(known if producer_id >= 0 else {})}
        appended = append(self.log, contents, epoch=self.epoch, **options)
        base, count = self.end_offset, len(contents)
        assert appended == (base, -1, False), "offsets are assigned in sequence"
        batch = Batch(base, base + count, self.epoch, producer_id, sequence + count)
        self.batches.append(batch)
        for record in contents:
            self.history[base + record.offset] = Written(
                record.key, record.value, record.timestamp, self.storage.now_ms, batch
            )
        self.end_offset = batch.next_offset
        if producer_id >= 0:
            self.shortened.discard(producer_id)
            again = append(self.log, contents, epoch=self.epoch, **options)
            assert again == (base, contents[-1].timestamp, True)

    @rule()
    def flush(self) -> None:
        assert self.storage.flush() is None
        self._flushed()

    def _flushed(self) -> None:
        """The broker's high watermark follows its flushed offset, as with one replica."""
        self.flushed = max(self.flushed, self.log.flushed_offset)
        self.committed = max(self.committed, self.log.flushed_offset)
        self.log.set_high_watermark(max(self.log.high_watermark, self.log.flushed_offset))

    @rule(duration_ms=st.sampled_from([0, 10, BACKOFF_MS, 12_000, DELETE_RETENTION_MS + 1_000]))
    def run_for(self, duration_ms: int) -> None:
        self.storage.schedule.run_for(duration_ms)
        self._flushed()

    @rule()
    def checkpoint_begins(self) -> None:
        self.storage.directory.checkpoint_later()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Anywhere above the high watermark; below it, where a batch ends: a log whose end was
        compacted away has a lower end after a crash, in Kafka too."""
        committed = max(self.committed, self.start_offset)
        ends = [h.next_offset for h in headers_in(self.log) if h.next_offset <= committed]
        above = st.integers(committed, self.end_offset)
        self._truncate(data.draw(above | st.sampled_from(ends) if ends else above))

    def _truncate(self, offset: int) -> None:
        is_committed = offset < max(self.committed, self.start_offset)
        self.log.truncate(offset)
        batch = next((b for b in self.batches if b.next_offset > offset), None)
        assert self.log.end_offset == (min(offset, batch.base_offset) if batch else offset)
        cut = {b.producer_id for b in self.batches if b.next_offset > self.log.end_offset}
        self._cut(self.log.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        self.highest_start = min(self.highest_start, self.end_offset)
        if is_committed:
            # What replaced a record may be truncated, after the record was compacted away.
            found = {record.offset for record in records_in(self.log)}
            self.gone |= {at for at in self.history.keys() - found if at >= self.start_offset}
            self.batches = [
                replace(b, producer_id=-1) if b.producer_id in cut else b for b in self.batches
            ]

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        limit = min(self.log.flushed_offset, self.end_offset)
        self._advance_start(
            data.draw(st.integers(self.start_offset, max(self.start_offset, limit)))
        )

    def _advance_start(self, offset: int) -> None:
        self.log.advance_start(offset)
        self.start_offset = max(self.start_offset, offset)
        self.highest_start = max(self.highest_start, self.start_offset)

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule(policy=st.sampled_from(["compact", "compact", "delete"]))
    def change_policy(self, policy: str) -> None:
        self.storage.config = replace(self.storage.config, cleanup_policy=POLICIES[policy])
        self.log.reconfigure(self.storage.config)

    # Compaction

    @precondition(lambda self: self.is_compacted)
    @rule()
    def compact(self) -> None:
        """Let the cleaner run until it finds nothing to clean."""
        storage = self.storage
        storage.checkpoint()
        self._flushed()
        active = self.log.segments.active.base_offset
        for _ in range(2 + len(self.history)):  # a small map takes a few batches at a time
            storage.schedule.run_for(BACKOFF_MS)
            assert not storage.directory.cleaner.is_cleaning(self.log)
        assert storage.directory.cleaner.uncleanable == {}
        self.cleaned_below = active

    @precondition(lambda self: self.is_compacted)
    @rule(events=st.integers(0, 40), then=st.sampled_from(INTERRUPTIONS))
    def compact_partly(self, events: int, then: str) -> None:
        """Stop in the middle of a cleaning, if there is something to clean."""
        storage = self.storage
        assert storage.flush() is None
        self._flushed()
        cleaner = storage.directory.cleaner
        storage.directory.checkpoint_later()
        if storage.schedule.run(lambda: cleaner.is_cleaning(self.log), max_steps=200):
            for _ in range(events):
                storage.schedule.step()
        self._flushed()
        self.agrees_with_the_model()
        if then == "kill":
            self.kill()
        elif then == "lose power":
            self.lose_power()
        elif then == "restart":
            self.restart()
        elif then == "truncate":
            self._truncate(self.committed)
        elif then == "delete records":
            self._advance_start((self.start_offset + self.flushed) // 2)
        elif then == "change policy":
            self.change_policy("delete")

    # Restarts and crashes

    @rule()
    def restart(self) -> None:
        self.storage.restart()
        assert self.storage.directory.was_clean
        assert self.log.end_offset == self.end_offset
        assert self.log.start_offset == self.start_offset
        self._flushed()

    @rule()
    def kill(self) -> None:
        self.storage.recover()
        assert self.log.end_offset == self.end_offset, "the page cache survives kill -9"
        self._start_may_be_older()

    @rule()
    def lose_power(self) -> None:
        self.storage.lose_power()
        self.storage.open()
        end_offset = self.log.end_offset
        assert self.flushed <= end_offset <= self.end_offset, "flushed data survives"
        self._cut(end_offset)
        self._start_may_be_older()

    def _start_may_be_older(self) -> None:
        """DeleteRecords is on disk with the next checkpoint, so a crash may undo the last ones."""
        assert self.log.start_offset <= self.start_offset
        self.start_offset = self.log.start_offset

    def _cut(self, end_offset: int) -> None:
        """The log ends here now."""
        self.shortened |= {b.producer_id for b in self.batches if b.next_offset > end_offset}
        self.batches = [b for b in self.batches if b.base_offset < end_offset]
        assert not self.batches or self.batches[-1].next_offset <= end_offset, "whole batches"
        self.history = {at: each for at, each in self.history.items() if at < end_offset}
        self.gone = {at for at in self.gone if at < end_offset}
        self.end_offset = end_offset
        self.flushed = min(self.flushed, end_offset)
        self.committed = min(self.committed, end_offset)
        self.cleaned_below = min(self.cleaned_below, end_offset)

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.storage.directory.offline is None
        assert (self.log.start_offset, self.log.end_offset) == (self.start_offset, self.end_offset)
        found = list(records_in(self.log))
        self.records_are_those_that_were_written(found)
        self.only_replaced_records_are_missing(found)
        self.a_clean_log_has_each_key_once(found)
        self.records_are_found_by_offset(found)
        self.epochs_equal_those_of_the_batches()
        self.producers_know_their_last_sequence()

    def records_are_those_that_were_written(self, found: list[Record]) -> None:
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets)), "offsets ascend"
        for record in found:
            written = self.history[record.offset]
            expected = (written.key, written.value, written.timestamp)
            assert (record.key, record.value, record.timestamp) == expected
        came_back = self.gone.intersection(offsets)
        assert not came_back, f"offsets {sorted(came_back)} were read as missing before"

    def only_replaced_records_are_missing(self, found: list[Record]) -> None:
        present = {record.offset for record in found}
        last = {each.key: offset for offset, each in self.history.items()}
        missing_keys: set[bytes | None] = set()
        for offset, written in self.history.items():
            if offset in present or offset < self.start_offset or offset in self.gone:
                continue
            assert offset < self.flushed, f"offset {offset} was removed before it was flushed"
            if written.key is not None and last[written.key] == offset:
                age_ms = self.storage.now_ms - written.appended_ms
                assert written.value is None, f"the last value of a key is lost at {offset}"
                assert age_ms >= DELETE_RETENTION_MS, f"a tombstone went early at {offset}"
            self.gone.add(offset)
        for offset in self.gone:
            key = self.history[offset].key
            if key is not None and last[key] == offset and offset >= self.highest_start:
                missing_keys.add(key)
        back = [r.offset for r in found if r.key in missing_keys and r.offset >= self.highest_start]
        assert not back, f"records {back} have keys whose tombstone was removed"

    def a_clean_log_has_each_key_once(self, found: list[Record]) -> None:
        keys = [
            record.key
            for record in found
            if self.highest_start <= record.offset < self.cleaned_below
        ]
        assert len(keys) == len(set(keys))
        assert None not in keys

    def records_are_found_by_offset(self, found: list[Record]) -> None:
        """A read at any offset begins with the batch of the next record, or an empty one."""
        wanted = {at for each in found[:2] + found[-3:] for at in (each.offset, each.offset + 1)}
        for offset in sorted(wanted | {self.start_offset}):
            later = [record.offset for record in found if record.offset >= offset]
            piece = read(self.log, offset, 1) if offset < self.end_offset else None
            if piece is None:
                assert not later
                continue
            ((_, header),) = batches_in(piece.read())
            assert header.last_offset >= offset
            assert not later or header.base_offset <= later[0]

    def epochs_equal_those_of_the_batches(self) -> None:
        """From the highest log start offset on: epochs before it may have been removed, and
        batches that a crash brought back may have been compacted meanwhile."""
        first = max(self.start_offset, self.highest_start)
        expected = LeaderEpochs()
        for batch in self.batches:
            if batch.next_offset > first and batch.epoch > expected.latest:
                expected.assign(batch.epoch, max(batch.base_offset, first))
        live = LeaderEpochs()
        for epoch, start_offset in self.log.epochs.entries:
            if start_offset < self.end_offset:  # else no batch has this epoch yet
                live.assign(epoch, start_offset)
        if first == self.end_offset:
            return
        live.truncate_start(first)
        assert live.entries == expected.entries

    def producers_know_their_last_sequence(self) -> None:
        first = self.log.segments.base_offset
        states = self.log.producer_states.states
        rebuilt = ProducerStates()
        for header in self.log.segments.headers_between(first, self.end_offset):
            if header.has_producer:
                rebuilt.update(header, header.base_offset, header.max_timestamp, 0)
        last = {b.producer_id: b for b in self.batches if b.producer_id >= 0}
        for producer_id, batch in last.items():
            if batch.base_offset < first:
                continue  # its last batch was removed by DeleteRecords
            assert states[producer_id].batches[-1].last_sequence + 1 == batch.next_sequence
            if producer_id not in self.shortened:
                state = rebuilt.states[producer_id]
                assert state.batches[-1].last_sequence + 1 == batch.next_sequence


@pytest.mark.parametrize("examples", rounds(long=150, soak=10_000))
def test_compaction_against_model_with_many_examples(examples: int) -> None:
    run_state_machine_as_test(
        CompactionMachine,
        settings=settings(
            TestCompactionAgainstModel.settings, max_examples=examples, stateful_step_count=60
        ),
    )


TestCompactionAgainstModel = CompactionMachine.TestCase
TestCompactionAgainstModel.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
