"""The result of decoding payloads of one schema, and how it becomes that of a parser."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sawlog.pipeline.formats.parsed import BadRow, Parsed


class Decoded(NamedTuple):
    rows: pa.RecordBatch
    """The good payloads, in their order."""
    bad: Mapping[int, str]
    """The reasons for the others, by index."""


class Decoder(Protocol):
    """Decodes payloads of one schema to its columns."""

    @property
    def columns(self) -> pa.Schema: ...

    def decode(self, payloads: Sequence[bytes]) -> Decoded: ...


def without_rows(batch: pa.RecordBatch, bad: Collection[int]) -> pa.RecordBatch:
    return batch.take(pa.array(kept_rows(batch.num_rows, bad))) if bad else batch


def kept_rows(count: int, bad: Collection[int]) -> npt.NDArray[np.int64]:
    """The indexes of `count` values that are not bad."""
    fits = np.ones(count, np.bool_)
    fits[list(bad)] = False
    return np.flatnonzero(fits)


def parsed_rows(rows: pa.RecordBatch, bad: Mapping[int, str], count: int) -> Parsed:
    """The result for `count` values of which `rows` has those that are not bad."""
    found = [BadRow(row, bad[row]) for row in sorted(bad)]
    return Parsed(rows, pa.array(kept_rows(count, bad)) if found else None, found)
