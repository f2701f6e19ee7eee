"""Random transactions, truncations and crashes: what a log knows of its transactions is what its
batches say."""

from dataclasses import replace
from random import Random

import pytest

from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.open_transactions import AbortedTransaction
from support.storage.logs import SimulatedStorage, append, records
from support.storage.transactions import ABORT, COMMIT, TransactionalProducer

STEPS = 120
PRODUCERS = 4


class TransactionModel:
    """A log under random operations, and the state that its batches give.

    `expected` reads every batch in order: open transactions by producer id, and the aborted ones.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        config = LogConfig(segment_bytes=900, index_interval_bytes=100, file_delete_delay_ms=0)
        self.storage = SimulatedStorage(config, seed=seed)
        self.leader_epoch = 0

    @property
    def log(self) -> Log:
        return self.storage.log

    def producer(self) -> TransactionalProducer:
        """A producer that goes on where the log says it is."""
        producer_id = self.random.randrange(PRODUCERS)
        producer = TransactionalProducer(self.log, producer_id, leader_epoch=self.leader_epoch)
        state = self.log.producer_states.states.get(producer_id)
        if state is None:
            return producer
        sequence = state.batches[-1].last_sequence + 1 if state.batches else 0
        return replace(producer, epoch=state.epoch, sequence=sequence)

    def step(self) -> None:
        random = self.random
        log = self.log
        match random.choices(range(10), (30, 12, 8, 6, 10, 4, 3, 2, 2, 2))[0]:
            case 0:
                self.producer().send(random.randint(1, 3))
            case 1:
                self.producer().end(random.choice((ABORT, COMMIT)))
            case 2:
                self.producer().end_with_bump(random.choice((ABORT, ABORT, COMMIT)))
            case 3:
                append(log, records(random.randint(1, 4)), epoch=self.leader_epoch)
            case 4:
                log.set_high_watermark(random.randint(log.high_watermark, log.end_offset))
            case 5:
                self.storage.checkpoint()
            case 6:
                log.truncate(random.randint(log.high_watermark, log.end_offset))
            case 7:
                self.storage.restart()
            case 8:
                self.storage.recover()
            case 9:
                self.storage.lose_power()
                self.storage.open()

    def expected(self) -> tuple[dict[int, int], list[AbortedTransaction]]:
        log = self.log
        ongoing: dict[int, int] = {}
        aborted: list[AbortedTransaction] = []
        for segment, position, header in log.segments.batches_between(0, log.end_offset):
            if header.is_control:
                marker = segment.marker_at(position, header)
                first_offset = ongoing.pop(header.producer_id, None)
                if marker is not None and marker.is_abort and first_offset is not None:
                    stable = min(ongoing.values(), default=header.base_offset + 1)
                    aborted.append(
                        AbortedTransaction(
                            header.producer_id, first_offset, header.base_offset, stable
                        )
                    )
            elif header.is_transactional:
                ongoing.setdefault(header.producer_id, header.base_offset)
        return ongoing, aborted

    def check(self) -> None:
        log = self.log
        ongoing, aborted = self.expected()
        found = [entry for segment in log.segments for entry in segment.transaction_index]
        assert found == aborted
        for segment in log.segments:
            end = log.segments.next_base_offset(segment, log.end_offset)
            assert all(
                segment.base_offset <= entry.last_offset < end
                for entry in segment.transaction_index
            )
        assert {
            producer_id: first_offset
            for first_offset, producer_id in log.producer_states.open_transactions()
        } == ongoing
        assert log.last_stable_offset <= min([log.high_watermark, *ongoing.values()])
        if log.high_watermark == log.end_offset:
            assert log.last_stable_offset == min([log.end_offset, *ongoing.values()])
        start = self.random.randint(0, log.end_offset)
        end_offset = self.random.randint(start, log.end_offset)
        needed = {
            entry
            for entry in aborted
            if entry.last_offset >= start and entry.first_offset < end_offset
        }
        assert set(log.aborted_transactions(start, end_offset)) == needed


@pytest.mark.parametrize("seed", range(12))
def test_transactions_are_those_of_the_batches(seed: int) -> None:
    model = TransactionModel(seed)
    for _ in range(STEPS):
        model.step()
        model.check()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_transactions_are_those_of_the_batches_with_more_seeds(seed: int) -> None:
    test_transactions_are_those_of_the_batches(seed)
