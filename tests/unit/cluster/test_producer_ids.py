"""Producer ids are unique over crashes and over brokers."""

import json

import pytest

from sawlog.cluster.producer_ids import BLOCK_SIZE, FIRST_ID, ProducerIds
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId
from sawlog.core.store import Create
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import Stopped
from sawlog.simulation.simulated_store import StoreService
from support.cluster.stores import EmbeddedOnSimulatedDisk

Given = list[int | KafkaError]


def ask(ids: ProducerIds, count: int, given: Given) -> None:
    for _ in range(count):
        ids.next(given.append)


def test_ids_rise_in_blocks_far_above_kafkas() -> None:
    harness = EmbeddedOnSimulatedDisk()
    store = harness.connect()
    ids, given = ProducerIds(store, NodeId(3)), Given()
    ask(ids, BLOCK_SIZE + 5, given)
    assert given == [], "nothing is handed out before the block is durable"
    harness.drive(lambda: len(given) == BLOCK_SIZE + 5)
    assert given == list(range(FIRST_ID, FIRST_ID + BLOCK_SIZE + 5))
    blocks: list[object] = []
    store.get("/latest_producer_id_block", blocks.append)
    harness.drive(lambda: bool(blocks))
    fields = json.loads(getattr(blocks[0], "data", b""))
    start = FIRST_ID + BLOCK_SIZE
    block = {"block_start": str(start), "block_end": str(start + BLOCK_SIZE - 1)}
    assert fields == {"version": 1, "broker": 3, **block}


def test_an_id_from_the_current_block_is_returned_at_once() -> None:
    harness = EmbeddedOnSimulatedDisk()
    ids, given = ProducerIds(harness.connect(), NodeId(0)), Given()
    ask(ids, 1, given)
    harness.drive(lambda: bool(given))
    ask(ids, 1, given)
    assert given == [FIRST_ID, FIRST_ID + 1]


@pytest.mark.parametrize("seed", range(1, 5))
def test_ids_are_unique_over_power_losses(seed: int) -> None:
    harness = EmbeddedOnSimulatedDisk(seed)
    random = SeededRandom(seed)
    used: list[int] = []
    for run in range(30):
        given = Given()
        harness.disk.stop_at = harness.disk.operations + 1 + random.below(12)
        try:
            ids = ProducerIds(harness.connect(), NodeId(0))
            ask(ids, 3, given)
            harness.drive(lambda given=given: len(given) == 3)  # type: ignore[misc]
        except Stopped:
            pass
        used += [number for number in given if isinstance(number, int)]
        harness.schedule.clear()
        harness.disk.power_loss(SeededRandom(seed * 100 + run))
    assert len(used) > 10
    assert len(used) == len(set(used))


def test_two_brokers_never_get_the_same_block() -> None:
    schedule = Schedule(1)
    service = StoreService(schedule)
    brokers = [ProducerIds(service.connect(), NodeId(node)) for node in range(3)]
    given: list[Given] = [[], [], []]
    for _ in range(3):
        for ids, mine in zip(brokers, given, strict=True):
            ask(ids, BLOCK_SIZE // 2 + 7, mine)
        schedule.run(lambda: False)
    flat = [number for mine in given for number in mine]
    assert len(flat) == len(set(flat)) == 9 * (BLOCK_SIZE // 2 + 7)


def test_all_waiting_calls_fail_when_the_store_is_lost() -> None:
    schedule = Schedule(1)
    store = StoreService(schedule).connect()
    ids, given = ProducerIds(store, NodeId(0)), Given()
    ask(ids, 3, given)
    store.suspend()
    schedule.run(lambda: len(given) == 3)
    assert all(isinstance(error, KafkaError) and error.is_retriable for error in given)
    store.resume()
    ask(ids, 1, given)
    schedule.run(lambda: len(given) == 4)
    assert isinstance(given[3], int)


def test_no_block_goes_beyond_the_largest_id() -> None:
    harness = EmbeddedOnSimulatedDisk()
    store = harness.connect()
    last = json.dumps({"block_end": str((1 << 63) - 2)}).encode()
    store.multi([Create("/latest_producer_id_block", last)], lambda _: None)
    ids, given = ProducerIds(store, NodeId(0)), Given()
    ask(ids, 1, given)
    harness.drive(lambda: bool(given))
    assert isinstance(given[0], KafkaError)
