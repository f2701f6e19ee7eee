"""The log against a model: a list of batches."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import batches_in
from sawlog.storage.leader_epochs import LeaderEpochs
from sawlog.storage.log_config import LogConfig
from sawlog.storage.producer_state import ProducerStates
from support.storage.logs import SimulatedStorage, append, headers_in, read, records
from support.tiers import rounds

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=150, segment_index_bytes=80)


@dataclass(frozen=True)
class Batch:
    base_offset: int
    next_offset: int
    epoch: int
    timestamp: int
    value: bytes
    producer_id: int


class LogMachine(RuleBasedStateMachine):
    """`batches` holds what was appended and not truncated; `flushed` is the highest offset of a
    completed flush."""

    @initialize(seed=st.integers(0, 2**32))
    def open_storage(self, seed: int) -> None:
        self.storage = SimulatedStorage(CONFIG, seed=seed)
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.flushed = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.count = 0
        self.storage.log.assign_epoch(0)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_end_without_batches

    log_end_without_batches = 0

    # Operations

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 450),
        producer_id=st.sampled_from([-1, 7, 8]),
        later_ms=st.integers(-5, 20),
    )
    def append(self, count: int, size: int, producer_id: int, later_ms: int) -> None:
        storage = self.storage
        storage.schedule.run_for(1)
        self.count += 1
        value = b"%d:" % self.count + bytes(size)
        timestamp = storage.now_ms + later_ms
        sequence = self.sequences.get(producer_id, 0)
        contents = records(count, timestamp=timestamp, value=value)
        known = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        batch = known if producer_id >= 0 else {}
        expected = self.end_offset
        appended = append(storage.log, contents, epoch=self.epoch, **batch)
        assert appended == (expected, -1, False)
        self.batches.append(
            Batch(expected, expected + count, self.epoch, timestamp, value, producer_id)
        )
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + count
            again = append(storage.log, contents, epoch=self.epoch, **batch)
            assert again.duplicate
            assert again.base_offset == expected

    @rule()
    def flush(self) -> None:
        assert self.storage.flush() is None
        assert self.storage.log.flushed_offset == self.end_offset
        self.flushed = self.end_offset

    @rule(duration_ms=st.sampled_from([0, 10, 6_000]))
    def run_for(self, duration_ms: int) -> None:
        self.storage.schedule.run_for(duration_ms)
        self.flushed = max(self.flushed, self.storage.log.flushed_offset)

    @rule()
    def checkpoint_begins(self) -> None:
        self.storage.directory.checkpoint_later()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        self.storage.log.truncate(offset)
        self._keep_below(offset)
        assert self.storage.log.end_offset == self.end_offset
        self.flushed = min(self.flushed, self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        limit = min(self.storage.log.flushed_offset, self.end_offset)
        offset = data.draw(st.integers(self.start_offset, max(self.start_offset, limit)))
        self.storage.log.advance_start(offset)
        self.start_offset = max(self.start_offset, offset)

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1
        self.storage.log.assign_epoch(self.epoch)

    # Restarts and crashes

    @rule()
    def restart(self) -> None:
        self.storage.restart()
        assert self.storage.directory.was_clean
        assert self.storage.log.end_offset == self.end_offset
        assert self.storage.log.flushed_offset == self.end_offset
        assert self.storage.log.start_offset == self.start_offset
        self.flushed = self.end_offset

    @rule()
    def kill(self) -> None:
        self.storage.recover()
        assert self.storage.log.end_offset == self.end_offset, "the page cache survives kill -9"
        self._start_may_be_older()

    @rule()
    def lose_power(self) -> None:
        self.storage.lose_power()
        self.storage.open()
        end_offset = self.storage.log.end_offset
        assert self.flushed <= end_offset <= self.end_offset, "flushed data survives"
        self._keep_below(end_offset)
        assert self.end_offset == end_offset, "a log ends at a batch boundary"
        self._start_may_be_older()

    def _keep_below(self, offset: int) -> None:
        while self.batches and self.batches[-1].next_offset > offset:
            cut = self.batches.pop()
            self.log_end_without_batches = cut.base_offset
        self.sequences = {}
        for batch in self.batches:
            if batch.producer_id >= 0:
                count = batch.next_offset - batch.base_offset
                self.sequences[batch.producer_id] = self.sequences.get(batch.producer_id, 0) + count

    def _start_may_be_older(self) -> None:
        """DeleteRecords is on disk with the next checkpoint, so a crash may undo the last ones."""
        start_offset = self.storage.log.start_offset
        assert start_offset <= self.start_offset
        self.start_offset = start_offset

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.offsets_are_those_of_the_model()
        self.every_record_can_be_read()
        self.offsets_out_of_range_are_rejected()
        self.sizes_add_up()
        self.timestamps_are_found()
        self.epochs_equal_those_of_the_batches()
        self.producers_know_their_next_sequence()
        self.producers_equal_those_rebuilt_from_the_batches()

    def offsets_are_those_of_the_model(self) -> None:
        log = self.storage.log
        assert (log.start_offset, log.end_offset) == (self.start_offset, self.end_offset)
        assert log.flushed_offset <= log.end_offset
        assert self.storage.directory.offline is None

    def every_record_can_be_read(self) -> None:
        log = self.storage.log
        visible = [batch for batch in self.batches if batch.next_offset > self.start_offset]
        found = [
            (h.base_offset, h.next_offset, h.leader_epoch, h.max_timestamp) for h in headers_in(log)
        ]
        assert found == [(b.base_offset, b.next_offset, b.epoch, b.timestamp) for b in visible]
        for batch in visible[-3:] + visible[:2]:
            for offset in range(max(batch.base_offset, self.start_offset), batch.next_offset):
                piece = read(log, offset, 1)
                assert piece is not None
                data = piece.read()
                assert [h.base_offset for _, h in batches_in(data)] == [batch.base_offset]
                assert batch.value in data

    def offsets_out_of_range_are_rejected(self) -> None:
        log = self.storage.log
        for offset in (self.start_offset - 1, self.end_offset + 1):
            with pytest.raises(KafkaError) as error:
                read(log, offset)
            assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert read(log, self.end_offset) is None

    def sizes_add_up(self) -> None:
        log = self.storage.log
        expected = sum(h.size for h in headers_in(log) if h.next_offset > self.start_offset)
        assert log.bytes_between(self.start_offset, self.end_offset) == expected

    def timestamps_are_found(self) -> None:
        log = self.storage.log
        visible = [batch for batch in self.batches if batch.next_offset > self.start_offset]
        if not visible:
            assert log.offset_of_max_timestamp(self.end_offset) is None
            return
        latest = max(visible, key=lambda batch: batch.timestamp)
        found = log.offset_of_max_timestamp(self.end_offset)
        assert found == (max(latest.base_offset, self.start_offset), latest.timestamp, latest.epoch)
        for wanted in {
            visible[0].timestamp,
            visible[len(visible) // 2].timestamp,
            latest.timestamp,
        }:
            first = next(batch for batch in visible if batch.timestamp >= wanted)
            offset = max(first.base_offset, self.start_offset)
            timed = log.offset_for_timestamp(wanted, self.end_offset)
            assert timed == (offset, first.timestamp, first.epoch)
        assert log.offset_for_timestamp(latest.timestamp + 1, self.end_offset) is None

    def epochs_equal_those_of_the_batches(self) -> None:
        log = self.storage.log
        rebuilt = LeaderEpochs()
        for batch in self.batches:
            if batch.next_offset > self.start_offset and batch.epoch > rebuilt.latest:
                rebuilt.assign(batch.epoch, max(batch.base_offset, self.start_offset))
        live = log.epochs.entries
        if live and live[-1].start_offset >= self.end_offset:
            live = live[:-1]  # no batch has this epoch yet
        assert live == rebuilt.entries

    def producers_know_their_next_sequence(self) -> None:
        states = self.storage.log.producer_states.states
        for producer_id, sequence in self.sequences.items():
            if producer_id in states:
                assert states[producer_id].batches[-1].last_sequence + 1 == sequence

    def producers_equal_those_rebuilt_from_the_batches(self) -> None:
        if self.start_offset > 0 or self.storage.log.segments.base_offsets[0] > 0:
            return  # the state also knows batches that were removed
        rebuilt = ProducerStates()
        for header in headers_in(self.storage.log):
            if header.producer_id >= 0:
                rebuilt.update(header, header.base_offset, header.max_timestamp, 0)
        assert self.storage.log.producer_states.equals_except_timestamps(rebuilt)


@pytest.mark.parametrize("examples", rounds(long=200, soak=10_000))
def test_log_against_model_with_many_examples(examples: int) -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            TestLogAgainstModel.settings, max_examples=examples, stateful_step_count=60
        ),
    )


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
