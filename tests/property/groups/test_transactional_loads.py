"""After any history of plain commits, transactional commits, markers and deletions, a load from the
log gives the live state, and both are what the order of the records says."""

from typing import Any, NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.last_values import LastValues
from sawlog.coordinator.loader import in_replay_order
from sawlog.core.ids import ProducerId
from sawlog.groups.group_machine import GroupMachine
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.groups.offsets.offset_table import tombstone
from sawlog.protocol.compression import Codec
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import BatchBuilder
from support.groups.offsets import OffsetsWorld, topic_id

PRODUCERS = st.integers(1, 3).map(ProducerId)
PLACES = st.tuples(st.sampled_from(["g", "h"]), st.integers(0, 1))


class Commit(NamedTuple):
    """One batch of commits; an offset of None deletes the committed one."""

    producer_id: ProducerId | None
    offsets: dict[tuple[str, int], int | None]
    codec: int = Codec.NONE


class Marker(NamedTuple):
    producer_id: ProducerId
    is_commit: bool


def offsets(values: "st.SearchStrategy[int | None]") -> Any:
    return st.dictionaries(PLACES, values, min_size=1, max_size=3)


NUMBERS = st.integers(0, 99)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD])
PLAIN = st.builds(Commit, st.none(), offsets(st.one_of(NUMBERS, NUMBERS, st.none())), CODECS)
TRANSACTIONAL = st.builds(Commit, PRODUCERS, offsets(NUMBERS), CODECS)
MARKERS = st.builds(Marker, PRODUCERS, st.booleans())
HISTORIES = st.lists(st.one_of(PLAIN, TRANSACTIONAL, TRANSACTIONAL, MARKERS), max_size=14)


def entries(commit: Commit) -> list[Entry]:
    return [
        tombstone(group, "t", partition)
        if offset is None
        else Entry(
            OffsetCommitKey(group, "t", partition),
            OffsetCommitValue(offset, -1, "", 1_000, -1, topic_id("t")),
            4,
        )
        for (group, partition), offset in commit.offsets.items()
    ]


def batch_of(step: Commit | Marker, offset: int) -> bytes:
    if isinstance(step, Marker):
        outcome = ControlType.COMMIT if step.is_commit else ControlType.ABORT
        batch = marker_batch(EndTransactionMarker(outcome, 0), step.producer_id, 0, 1_000)
    else:
        builder = BatchBuilder()
        for entry in entries(step):
            builder.append(1_000, *GROUP_RECORDS.encode(entry))
        if step.producer_id is None:
            batch = builder.finish(codec=step.codec)
        else:
            batch = builder.finish(
                codec=step.codec,
                producer_id=step.producer_id,
                producer_epoch=0,
                transactional=True,
            )
    stamp(memoryview(batch), offset, 0)
    return bytes(batch)


def live(history: list[Commit | Marker]) -> GroupMachine:
    machine = OffsetsWorld().machine
    for step in history:
        if isinstance(step, Marker):
            machine.end_transaction(step.producer_id, is_commit=step.is_commit)
            continue
        for entry in entries(step):
            if step.producer_id is None:
                machine.replay(entry)
            else:
                machine.replay_pending(step.producer_id, entry)
    return machine


def loaded(history: list[Commit | Marker]) -> GroupMachine:
    last, position = LastValues(), 0
    for step in history:
        size = 1 if isinstance(step, Marker) else len(step.offsets)
        assert last.read(batch_of(step, position), position) == position + size
        position += size
    machine = OffsetsWorld().machine
    for key, value, producer_id in in_replay_order(last):
        if producer_id is not None:
            machine.replay_pending(producer_id, GROUP_RECORDS.decode(key, value))
        elif not machine.replay_encoded(key, value):
            machine.replay(GROUP_RECORDS.decode(key, value))
    return machine


def state(machine: GroupMachine) -> tuple[dict[Any, int], dict[Any, list[Any]]]:
    """The committed offsets and the pending ones, in log order, by group and partition."""
    table = machine.offsets
    committed = {
        (group, partition): found.offset
        for group, topics in table.by_group.items()
        for partitions in topics.values()
        for partition, found in partitions.items()
    }
    pending = {
        (place.group_id, place.partition): [
            (producer_id, None if found is None else found.offset)
            for producer_id, found in table.pending.of_key(place).items()
        ]
        for place in table.pending.keys
    }
    return committed, pending


def outcomes(history: list[Commit | Marker]) -> list[bool | None]:
    """For each commit of a producer whether its transaction is committed; None: it is open."""
    found: list[bool | None] = []
    for index, step in enumerate(history):
        ends = (
            later.is_commit
            for later in history[index:]
            if isinstance(later, Marker) and later.producer_id == step.producer_id
        )
        found.append(next(ends, None))
    return found


def by_record_order(history: list[Commit | Marker]) -> tuple[dict[Any, int], dict[Any, list[Any]]]:
    """The state if each committed transaction had written plain records: the model."""
    committed: dict[Any, int] = {}
    pending: dict[Any, dict[ProducerId, int | None]] = {}
    for step, outcome in zip(history, outcomes(history), strict=True):
        if isinstance(step, Marker):
            continue
        for place, offset in step.offsets.items():
            waiting = pending.setdefault(place, {})
            if step.producer_id is not None and outcome is None:
                assert offset is not None
                waiting.pop(step.producer_id, None)
                waiting[step.producer_id] = offset
            elif step.producer_id is None or outcome:
                if offset is None:
                    committed.pop(place, None)
                    waiting.clear()
                else:
                    committed[place] = offset
                    waiting.update(dict.fromkeys(waiting, None))
    return committed, {place: list(found.items()) for place, found in pending.items() if found}


@settings(max_examples=300, deadline=None)
@given(HISTORIES)
def test_a_loaded_state_equals_the_live_one(history: list[Commit | Marker]) -> None:
    expected = by_record_order(history)
    event(f"pending: {bool(expected[1])}")
    event(f"superseded: {any(None in dict(found).values() for found in expected[1].values())}")
    assert state(live(history)) == expected
    assert state(loaded(history)) == expected
