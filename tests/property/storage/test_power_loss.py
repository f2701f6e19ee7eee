"""Power loss at every step of a workload: all flushed records survive, and the log is valid."""

from collections.abc import Callable

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.simulated_disk import Stopped
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TP, SimulatedStorage, append, headers_in, read, records

CONFIG = LogConfig(segment_bytes=800, index_interval_bytes=100)
SEEDS = range(3)


class Workload:
    """A workload with two producers, rolls, flushes, checkpoints, a truncation, new epochs, a new
    start offset and a clean restart. `flushed_offset` is the end of the last completed flush."""

    def __init__(self, seed: int, *, stop_at: int | None = None) -> None:
        self.storage = SimulatedStorage(CONFIG, seed=seed)
        self.flushed_offset = 0
        self.values: dict[int, bytes] = {}
        self.storage.disk.forgets_syncs = False
        self.stop_at = stop_at

    def run(self) -> bool:
        """Run the workload; returns False if the disk stopped it."""
        self.storage.disk.stop_at = self.stop_at
        try:
            self._work()
        except Stopped:
            return False
        return True

    def _work(self) -> None:
        storage = self.storage
        for number in range(24):
            if number == 9:
                self._truncate()
            if number == 14:
                storage.directory.close_cleanly()
                self.flushed_offset = storage.log.end_offset
                stop_at = storage.disk.stop_at
                storage.kill()
                storage.disk.stop_at = stop_at
                storage.open()
            if number == 18:
                storage.log.advance_start(min(4, storage.log.flushed_offset))
            self._append(number)
            if number % 3 == 2:
                storage.log.flush.when_flushed(self._flushed(storage.log.end_offset))
            for _ in range(number % 4):
                storage.schedule.step()
            if number % 10 == 5:
                storage.schedule.run_for(6_000)

    def _append(self, number: int) -> None:
        log = self.storage.log
        producer = {
            "producer_id": number % 2,
            "producer_epoch": number // 9,
            "base_sequence": self._sequence(number),
        }
        value = b"%d:" % number + bytes(10 * (number % 7))
        count = number % 3 + 1
        base = append(log, records(count, value=value), epoch=number // 9, **producer).base_offset
        for offset in range(base, base + count):
            self.values[offset] = value

    def _sequence(self, number: int) -> int:
        states = self.storage.log.producer_states.states
        state = states.get(number % 2)
        if state is None or state.epoch != number // 9:
            return 0
        return state.batches[-1].last_sequence + 1

    def _truncate(self) -> None:
        offset = self.storage.log.end_offset - 4
        self.flushed_offset = min(self.flushed_offset, offset - 2)
        self.storage.log.truncate(offset)
        self.flushed_offset = min(self.flushed_offset, self.storage.log.end_offset)

    def _flushed(self, end_offset: int) -> Callable[[DiskError | None], None]:
        truncations = self.storage.log.truncations

        def done(error: DiskError | None) -> None:
            if error is None and self.storage.log.truncations == truncations:
                self.flushed_offset = max(self.flushed_offset, end_offset)

        return done

    def check(self) -> None:
        """After a restart: check that all flushed records are there, contiguous and unchanged."""
        log = self.storage.log
        assert log.end_offset >= self.flushed_offset
        offset = None
        for header in headers_in(log):
            assert offset is None or header.base_offset == offset
            offset = header.next_offset
            piece = read(log, max(header.base_offset, log.start_offset), 1)
            assert piece is not None
            value = self.values.get(header.base_offset)
            if header.base_offset < self.flushed_offset:
                assert value is not None
                assert value in piece.read()
        states = dict(log.producer_states.states)
        epochs = log.epochs.entries
        self.storage.recover()
        again = self.storage.log
        assert (again.producer_states.states, again.epochs.entries) == (states, epochs)
        append(again, records(1), epoch=99)


@pytest.mark.parametrize("seed", SEEDS)
def test_flushed_records_survive_a_power_loss_at_every_step(seed: int) -> None:
    whole = Workload(seed)
    assert whole.run()
    last = whole.storage.disk.operations
    assert last > 100
    for step in range(1, last + 1):
        workload = Workload(seed, stop_at=step + 1)
        workload.run()
        workload.storage.lose_power()
        workload.storage.open()
        workload.check()


@pytest.mark.parametrize("seed", SEEDS)
def test_flushed_records_survive_a_power_loss_at_every_step_of_recovery(seed: int) -> None:
    whole = Workload(seed)
    whole.run()
    for step in range(20, whole.storage.disk.operations, 37):
        for second in range(1, 12):
            workload = Workload(seed, stop_at=step)
            workload.run()
            storage = workload.storage
            storage.lose_power()
            storage.disk.stop_at = storage.disk.operations + second
            try:
                storage.open()
            except Stopped:
                storage.lose_power()
                storage.open()
            storage.disk.stop_at = None
            workload.check()


def test_a_missing_fdatasync_loses_flushed_records() -> None:
    """On a disk that reports syncs without doing them, flushed records are lost."""
    losses = 0
    for seed in range(5):
        workload = Workload(seed)
        workload.storage.disk.forgets_syncs = True
        workload.run()
        flushed_offset = workload.flushed_offset
        workload.storage.disk.forgets_syncs = False
        workload.storage.lose_power()
        workload.storage.open()
        losses += workload.storage.log.end_offset < flushed_offset
    assert losses >= 3


def replace_log(storage: SimulatedStorage, flushed: list[int]) -> None:
    """Delete the log, then write and flush another one of the same name."""
    storage.directory.delete(TP)
    storage.schedule.step()
    for number in range(6):
        storage.append(2)
        if number % 2:
            storage.log.flush.when_flushed(
                lambda error, end=storage.log.end_offset: flushed.append(end)
            )
            storage.schedule.run_for(0)
    storage.checkpoint()


@pytest.mark.parametrize("seed", SEEDS)
def test_flushed_records_survive_a_power_loss_at_every_step_of_replacing_a_log(seed: int) -> None:
    is_complete = False
    step = 0
    while not is_complete:
        step += 1
        storage = SimulatedStorage(CONFIG, seed=seed)
        append(storage.log, records(9))
        storage.log.set_high_watermark(9)
        storage.log.advance_start(7)
        storage.checkpoint()
        flushed: list[int] = []
        storage.disk.stop_at = storage.disk.operations + step
        try:
            replace_log(storage, flushed)
            is_complete = True
        except Stopped:
            pass
        storage.lose_power()
        storage.open()
        if flushed:
            assert storage.log.start_offset == 0
            assert storage.log.end_offset >= flushed[-1]
            bases = [header.base_offset for header in headers_in(storage.log)]
            assert bases == list(range(0, storage.log.end_offset, 2))
    assert step > 30
