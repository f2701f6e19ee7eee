"""The power goes at every step of a workload: what was flushed is there, and nothing is odd."""

from collections.abc import Callable

import pytest

from sawlog.core.ports import DiskError
from sawlog.simulation.simulated_disk import Stopped
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TP, Storage, append, headers_in, read, records

CONFIG = LogConfig(segment_bytes=800, index_interval_bytes=100)
SEEDS = range(3)


class Workload:
    """Two producers, rolls, flushes, checkpoints, a truncation, a new epoch, a deletion at the
    start, a clean restart; it notes what was promised."""

    def __init__(self, seed: int, *, stop_at: int | None = None) -> None:
        self.storage = Storage(CONFIG, seed=seed)
        self.promised_offset = 0
        self.values: dict[int, bytes] = {}
        self.storage.disk.forgets_syncs = False
        self.stop_at = stop_at

    def run(self) -> bool:
        """False where it was stopped on the way."""
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
                self.promised_offset = storage.log.end_offset
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
        self.promised_offset = min(self.promised_offset, offset - 2)
        self.storage.log.truncate(offset)
        self.promised_offset = min(self.promised_offset, self.storage.log.end_offset)

    def _flushed(self, end_offset: int) -> Callable[[DiskError | None], None]:
        generation = self.storage.log.generation

        def done(error: DiskError | None) -> None:
            if error is None and self.storage.log.generation == generation:
                self.promised_offset = max(self.promised_offset, end_offset)

        return done

    def check(self) -> None:
        """After the start: all that was promised, contiguous, with the right contents."""
        log = self.storage.log
        assert log.end_offset >= self.promised_offset
        offset = None
        for header in headers_in(log):
            assert offset is None or header.base_offset == offset
            offset = header.next_offset
            piece = read(log, max(header.base_offset, log.start_offset), 1)
            assert piece is not None
            value = self.values.get(header.base_offset)
            if header.base_offset < self.promised_offset:
                assert value is not None
                assert value in piece.read()
        states = dict(log.producer_states.states)
        epochs = log.epochs.entries
        self.storage.recover()
        again = self.storage.log
        assert (again.producer_states.states, again.epochs.entries) == (states, epochs)
        append(again, records(1), epoch=99)


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_lost_at_every_step(seed: int) -> None:
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
def test_power_is_lost_at_every_step_of_the_recovery_too(seed: int) -> None:
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


def test_leaving_out_the_fdatasync_is_noticed() -> None:
    """The same test on a disk that only says it has synced: records that were promised are gone."""
    losses = 0
    for seed in range(5):
        workload = Workload(seed)
        workload.storage.disk.forgets_syncs = True
        workload.run()
        promised = workload.promised_offset
        workload.storage.disk.forgets_syncs = False
        workload.storage.lose_power()
        workload.storage.open()
        losses += workload.storage.log.end_offset < promised
    assert losses >= 3


def replace_log(storage: Storage, promised: list[int]) -> None:
    """The log is deleted, and another of its name is written and flushed."""
    storage.directory.delete(TP)
    storage.schedule.step()
    for number in range(6):
        storage.append(2)
        if number % 2:
            storage.log.flush.when_flushed(
                lambda error, end=storage.log.end_offset: promised.append(end)
            )
            storage.schedule.run_for(0)
    storage.checkpoint()


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_lost_at_every_step_of_replacing_a_log(seed: int) -> None:
    is_through = False
    step = 0
    while not is_through:
        step += 1
        storage = Storage(CONFIG, seed=seed)
        append(storage.log, records(9))
        storage.log.high_watermark = 9
        storage.log.advance_start(7)
        storage.checkpoint()
        promised: list[int] = []
        storage.disk.stop_at = storage.disk.operations + step
        try:
            replace_log(storage, promised)
            is_through = True
        except Stopped:
            pass
        storage.lose_power()
        storage.open()
        if promised:
            assert storage.log.start_offset == 0
            assert storage.log.end_offset >= promised[-1]
            bases = [header.base_offset for header in headers_in(storage.log)]
            assert bases == list(range(0, storage.log.end_offset, 2))
    assert step > 30
