"""Records without a value (tombstones): rows of an appended table, with nulls for the value."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.parsed import Parsed


def land_tombstones(values: pa.Array, parsed: Parsed) -> Parsed:
    """Make the bad rows among `values` that are null good ones: all their columns are null.

    `values` are those of which `parsed` is the result. Parsers reject null, since a keyed table
    does not parse tombstones.
    """
    if not values.null_count or not parsed.bad:
        return parsed
    is_null = np.asarray(values.is_null())
    bad = [row for row in parsed.bad if not is_null[row.row]]
    tombstones = np.array([row.row for row in parsed.bad if is_null[row.row]], np.int64)
    if not len(tombstones):
        return parsed
    assert parsed.kept is not None, "there are bad rows"
    good = np.asarray(parsed.kept).astype(np.int64)
    kept = np.concatenate([good, tombstones])
    order = np.argsort(kept)
    places = pa.array(order, mask=order >= len(good))
    rows = _take(parsed.rows, places)
    return parsed._replace(rows=rows, kept=pa.array(kept[order]) if bad else None, bad=bad)


def _take(rows: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    """The rows at these places; a null place is a row of nulls."""
    if not rows.num_columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(places), pa.struct([])))
    columns = [pc.take(column, places) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
