"""What the records of a keyed table do to its rows: replace a row, delete one, both, or neither.

A record with a null value (a tombstone) deletes the row of its key; so does a record whose row
fulfils `delete_when`, and a delete event of Debezium. All others are rows; an update of Debezium
to another key deletes the row of the old one too. A record that names no key is a dead letter.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.keys import last_per_key
from sawlog.pipeline.delta.merge import PLACE
from sawlog.pipeline.formats import is_framed
from sawlog.pipeline.formats.debezium import DELETE, TRUNCATE, UPSERTS, DebeziumEnvelope
from sawlog.pipeline.formats.landed_rows import assemble, dead_rows
from sawlog.pipeline.formats.parsed import BadRow, Format, Parsed
from sawlog.pipeline.landing.configuration.conditions import Condition, InvalidCondition
from sawlog.pipeline.landing.configuration.pipeline_config import RECORD_KEY, Upsert
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task.record_keys import RecordKeyParser, all_valid, reject_null_keys

if TYPE_CHECKING:
    from sawlog.pipeline.formats.registry_keys import FramedKeys

_NONE = pa.scalar(None, pa.binary())


class ChunkChanges(NamedTuple):
    """The records of a chunk by what they do."""

    records: pa.RecordBatch  # those with rows
    values: pa.Array | None  # the row of each of them, to be parsed; None: the values have it
    deletes: pa.RecordBatch
    old_keys: pa.RecordBatch  # deletes too, of keys that rows among `records` had before
    dead: pa.RecordBatch


class KeyedRecords:
    """`known` are the columns of values that the table has; others are inferred if `infer`."""

    def __init__(self, upsert: Upsert, known: pa.Schema, format_: Format, *, infer: bool) -> None:
        self._keys = upsert.key
        self._value_keys = [name for name in upsert.key if name != RECORD_KEY]
        self._key_parser = RecordKeyParser(self._value_keys, known, infer=infer)
        self._condition = Condition(upsert.delete_when) if upsert.delete_when else None
        self._envelope = DebeziumEnvelope(format_, self._value_keys) if upsert.envelope else None
        self._framed_keys = _framed_keys(format_) if self._value_keys else None

    def split(self, partition: TopicPartition, records: pa.RecordBatch) -> ChunkChanges:
        """Separate rows, deletes and dead letters. Raises LandingFailure for a truncation."""
        values = records.column("value").cast(pa.binary())
        bad: list[BadRow] = []
        rows, before = values, pa.repeat(_NONE, len(values))
        if self._envelope is not None:
            rows, before, bad = self._unwrapped(partition, records, values, self._envelope)
        is_bad = pa.repeat(pa.scalar(False), len(values))
        if bad:
            places = pa.array([row.row for row in bad], pa.int64())
            is_bad = pc.is_in(_numbers(len(values)), value_set=places)
        has_row = pc.and_(pc.is_valid(rows), pc.invert(is_bad))
        is_delete = pc.and_(pc.is_null(rows), pc.invert(is_bad))
        deleting = records.filter(is_delete)
        keys = self._keys_of(deleting, before.filter(is_delete))
        has_both = pc.and_(has_row, pc.is_valid(before))
        moving, old_keys = self._old_keys(records.filter(has_both), before.filter(has_both),
                                          rows.filter(has_both))  # fmt: skip
        dead = [
            dead_rows(*partition, records, Parsed(keys.rows, None, bad)),
            dead_rows(*partition, deleting, keys),
        ]
        is_unwrapped = self._envelope is not None and self._envelope.has_rows_as_json
        return ChunkChanges(
            records.filter(has_row),
            rows.filter(has_row) if is_unwrapped else None,
            self._placed(assemble(*partition, deleting, keys)),
            self._placed(assemble(*partition, moving, old_keys)),
            pa.Table.from_batches(dead).combine_chunks().to_batches()[0]
            if any(part.num_rows for part in dead)
            else dead[0],
        )

    def with_keys(self, records: pa.RecordBatch, parsed: Parsed) -> Parsed:
        """Make rows without a key bad; `records` are those of which `parsed` is the result."""
        keyed = reject_null_keys(parsed, parsed.rows, self._value_keys)
        if RECORD_KEY not in self._keys:
            return keyed
        keys = records.select([RECORD_KEY])
        kept = keys if keyed.kept is None else keys.take(keyed.kept)
        return reject_null_keys(keyed, kept, [RECORD_KEY])

    def changes(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The last row of each key among the rows, and the rows to delete."""
        deletes = rows.slice(0, 0)
        if self._condition is not None:
            try:
                is_delete = self._condition.holds(rows)
            except InvalidCondition as error:
                raise LandingFailure(FailureKind.INVALID, f"delete_when: {error}") from error
            deletes = rows.filter(is_delete)
            rows = rows.filter(pc.invert(is_delete))
        if rows.num_rows:
            last = last_per_key(pa.Table.from_batches([rows]), self._keys)
            rows = last.combine_chunks().to_batches()[0]
        return rows, self._placed(deletes)

    def _placed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that a delete has."""
        names = dict.fromkeys([*PLACE, *self._keys])
        return rows.select([name for name in names if name in rows.schema.names])

    def _old_keys(
        self, records: pa.RecordBatch, before: pa.Array, after: pa.Array
    ) -> tuple[pa.RecordBatch, Parsed]:
        """The records whose row had another key before, and the key columns of the rows before.

        A row before that lacks a key column is not known. A key that does not fit the columns of
        the table is bad, and has no row there.
        """
        has_moved = pa.repeat(pa.scalar(False), len(records))
        if self._value_keys and len(records):
            old, new = self._key_parser.texts(before), self._key_parser.texts(after)
            for one, other in zip(old, new, strict=True):
                has_moved = pc.or_(has_moved, pc.fill_null(pc.not_equal(one, other), False))
            has_moved = pc.and_(has_moved, all_valid(old))
        moving = records.filter(has_moved)
        return moving, self._keys_of(moving, before.filter(has_moved))

    def _keys_of(self, records: pa.RecordBatch, before: pa.Array) -> Parsed:
        """The key columns of rows to delete, from the row before or the key of the record."""
        nothing = pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
        parsed = Parsed(nothing, None, ())
        bad_keys: dict[int, str] = {}
        record_keys = records.column("key").cast(pa.binary())
        if self._framed_keys is not None and len(records):
            record_keys, bad_keys = self._framed_keys.to_json(records)
        if self._value_keys and len(records):
            is_whole = pc.or_(all_valid(self._key_parser.texts(before)), pc.is_null(record_keys))
            parsed = self._key_parser.parse(pc.if_else(is_whole, before, _NONE), record_keys)
        if RECORD_KEY in self._keys:
            keys = records.select([RECORD_KEY])
            kept = keys if parsed.kept is None else keys.take(parsed.kept)
            parsed = reject_null_keys(parsed, kept, [RECORD_KEY])
        wanted = ", ".join(self._keys)
        reasons = [
            BadRow(row, f"a delete whose key does not give {wanted}: {bad_keys.get(row, reason)}")
            for row, reason in parsed.bad
        ]
        return parsed._replace(bad=reasons)

    def _unwrapped(
        self,
        partition: TopicPartition,
        records: pa.RecordBatch,
        values: pa.Array,
        envelope: DebeziumEnvelope,
    ) -> tuple[pa.Array, pa.Array, list[BadRow]]:
        """The row after and the row before of each record, and the records that are no event.

        A record without a row after deletes.
        """
        count = len(values)
        has_value = pc.is_valid(values)
        places = _numbers(count).filter(has_value)
        events = envelope.unwrap(records.filter(has_value))
        at = places.take(events.kept)
        bad = [BadRow(places[row].as_py(), reason) for row, reason in events.bad]
        is_row = pc.fill_null(pc.is_in(events.op, value_set=pa.array(UPSERTS)), False)
        is_delete = pc.fill_null(pc.equal(events.op, DELETE), False)
        truncates = pc.fill_null(pc.equal(events.op, TRUNCATE), False)
        if pc.any(truncates).as_py():
            offset = records.column("offset").take(at.filter(truncates))[0].as_py()
            raise LandingFailure(
                FailureKind.INVALID,
                f"{partition} has a TRUNCATE at offset {offset}, which has no place in the order of"
                " other partitions: land the topic in a new table that starts after it",
            )
        is_change = pc.or_(is_delete, pc.and_(is_row, pc.is_valid(events.after)))
        others = pc.invert(is_change)
        for row, op in zip(at.filter(others).to_pylist(), events.op.filter(others), strict=True):
            told = "no field op" if op.as_py() is None else f"op {op.as_py()!r} without a row"
            bad.append(BadRow(row, f"not a change event of Debezium: {told}"))
        after = pc.if_else(is_row, events.after.cast(pa.binary()), _NONE)
        before = events.before.cast(pa.binary())
        return _spread(after, at, count), _spread(before, at, count), sorted(bad)


def _framed_keys(format_: Format) -> "FramedKeys | None":
    """The decoder of keys with the id of a schema, if there may be such keys."""
    if format_.key_registry is None and not is_framed(format_):
        return None
    from sawlog.pipeline.formats.registry_keys import FramedKeys  # slow to import

    return FramedKeys(format_.key_registry)


def _spread(column: pa.Array, at: pa.Array, count: int) -> pa.Array:
    """The column with its values at these places and null elsewhere."""
    if not len(column):
        return pa.repeat(_NONE, count)
    places = pc.index_in(_numbers(count), value_set=at)
    return column.take(places)


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int64))
