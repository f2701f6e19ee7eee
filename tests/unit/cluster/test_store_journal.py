"""A store that is written from a tree, without a broker."""

import pytest

from sawlog.cluster.store_journal import StoreDamaged, StoreJournal, create_store
from sawlog.cluster.store_tree import StoreTree
from sawlog.core.store import Create
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk, Stopped


def tree() -> StoreTree:
    made = StoreTree()
    made.apply([Create("/a", b"1"), Create("/a/b", b"\xff\x00")], owner=0)
    return made


def test_a_created_store_opens_with_the_same_nodes() -> None:
    schedule = Schedule(1)
    disk = SimulatedDisk(schedule.soon)
    create_store(disk, tree())
    disk.power_loss(SeededRandom(1))
    opened = StoreJournal(disk).open()
    assert list(opened.dump()) == list(tree().dump())
    assert opened.number == 1


def test_a_store_that_was_not_completed_does_not_open() -> None:
    outcomes = set()
    for step in range(1, 20):
        schedule = Schedule(step)
        disk = SimulatedDisk(schedule.soon)
        disk.stop_at = step
        try:
            create_store(disk, tree())
        except Stopped:
            disk.power_loss(SeededRandom(step))
        disk.stop_at = None
        if not disk.list(""):
            outcomes.add("nothing")
            continue
        try:
            opened = StoreJournal(disk).open()
        except StoreDamaged:
            outcomes.add("damaged")
        else:
            outcomes.add("complete")
            assert list(opened.dump()) == list(tree().dump())
    assert outcomes == {"nothing", "damaged", "complete"}


@pytest.mark.parametrize("number", [1, 7])
def test_the_next_change_continues_the_numbers(number: int) -> None:
    made = tree()
    for child in range(number):
        made.apply([Create(f"/a/{child}")], owner=0)
    disk = SimulatedDisk(Schedule(1).soon)
    create_store(disk, made)
    journal = StoreJournal(disk)
    opened = journal.open()
    applied = opened.apply([Create("/z")], owner=0)
    journal.append(applied.number, applied.changes)
    disk.kill()
    assert StoreJournal(disk).open().number == number + 2
