"""Replaying the last record of each key gives the same state as replaying all records, and both
give the live state, after any requests.

The load replays only the last record of each key, in log order, and no tombstones. That is correct
as long as no record permanently changes the state of another key.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.last_values import LastValues
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_states import EMPTY, STABLE
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.context import GroupContext
from sawlog.groups.group_machine import GroupMachine
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import iterate
from support.groups.consumer_group import Groups
from support.groups.hostile_requests import GroupAttacker
from support.storage.logs import read
from support.tiers import rounds

Rows = list[tuple[bytes, bytes | None]]
SETTINGS = {
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "100",
    "offsets_retention_minutes": "1",
    "offsets_retention_check_interval_ms": "20000",
}


class NoTimers:
    """Timers for machines that only replay records."""

    def set(self, *_: object) -> None: ...

    def cancel(self, *_: object) -> None: ...

    def is_set(self, *_: object) -> bool:
        return False


class History:
    """Groups that received hostile requests."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._attacker = GroupAttacker(self._random)
        self.groups = Groups(seed=seed % 1_000, **SETTINGS)
        self.groups.make(t=3, u=2)

    def run(self, requests: int) -> None:
        machine = self.groups.machine
        for _ in range(requests):
            match self._random.randrange(40):
                case 0:
                    self.groups.pass_time(self._random.choice((50, 500, 50_000)))
                case 1:
                    self._make_or_delete("u")
                case _:
                    call = machine.send(*self._attacker.request())
                    self.groups.pass_time(self._random.choice((0, 1, 1, 60)))
                    if call.is_done:
                        self._attacker.learn(call.answered)

    def _make_or_delete(self, topic: str) -> None:
        if topic in self.groups.machine.broker.metadata.image.topics:
            self.groups.delete(topic)
        else:
            self.groups.make(**{topic: 2})

    def log(self) -> bytes:
        """All batches of the log."""
        log = self.groups.machine.broker.replicas.by_partition["__consumer_offsets", 0].log
        found, position = b"", log.start_offset
        while (part := read(log, position)) is not None:
            batches = part.read()
            for start, header in batches_in(batches):
                found += batches[start : start + header.size]
                position = header.next_offset
        return found

    def replayed(self, rows: Rows) -> GroupMachine:
        simulated = self.groups.machine
        broker = simulated.broker
        context = GroupContext(
            simulated.schedule,
            simulated.random,
            NoTimers(),
            broker.components.config,
            lambda: broker.metadata.image,
        )
        machine = GroupMachine(context)
        for key, value in rows:
            machine.replay(GROUP_RECORDS.decode(key, value))
        machine.offset_requests.activate()
        return machine


def all_rows(data: bytes) -> Rows:
    return [
        (record.key, record.value)
        for start, header in batches_in(data)
        for record in iterate(data[start : start + header.size], max_decompressed_bytes=1 << 30)
        if record.key is not None
    ]


def last_rows(data: bytes) -> Rows:
    last = LastValues()
    last.read(data, 0)
    return [(key, value) for key, value in last.values.items() if value is not None]


def classic(group: ClassicGroup) -> Entry | None:
    """The record of a stable or empty group."""
    return group.record() if group.state in (STABLE, EMPTY) else None


def consumer(group: ConsumerGroup) -> dict[str, Any]:
    return {name: value for name, value in vars(group).items() if name != "checked_topics"}


def state(machine: GroupMachine) -> dict[str, Any]:
    """The durable state of all groups. A simple group without offsets is left out, because the next
    expiration deletes it."""
    found: dict[str, Any] = {"offsets": machine.offsets.by_group}
    for group in machine.groups.values():
        if isinstance(group, ConsumerGroup):
            found[f"consumer {group.id}"] = consumer(group)
        elif isinstance(group, ClassicGroup) and (
            group.state_since_ms is not None or group.id in machine.offsets.by_group
        ):
            found[f"classic {group.id}"] = classic(group)
    return found


def check(history: History) -> None:
    data = history.log()
    every, last = history.replayed(all_rows(data)), history.replayed(last_rows(data))
    assert state(last) == state(every)
    live, loaded = state(history.groups.group_machine), state(last)
    assert loaded.keys() <= live.keys()
    for name, expected in live.items():
        assert expected is None or expected == loaded.get(name), name


@pytest.mark.parametrize("requests", rounds(fast=150, long=900, soak=9_000))
def test_the_last_record_of_each_key_restores_the_whole_state(requests: int) -> None:
    @settings(max_examples=25, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def histories(seed: int) -> None:
        history = History(seed)
        for _ in range(3):
            history.run(requests // 3)
            check(history)
        history.groups.restart()
        check(history)

    histories()
