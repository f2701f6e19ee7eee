"""Maps the keys of JSON objects to columns, in the form that the compiled loop needs.

Several keys may belong to one column: written with escapes, in another case (Delta ignores case),
or with characters that a column name cannot have. Each key that was seen gets its own slot, so that
two of them in one object are noticed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sawlog.pipeline.formats.json_grammar import IGNORE, RECORD, REFUSE
from sawlog.pipeline.formats.json_kernels import Names, index_names

MAX_NEW_FIELDS = 2_000
"""Limit per parser: objects that use data as keys must not add columns without bound."""
MAX_KEYS = 20_000


@dataclass(slots=True)
class Column:
    name: str
    type: pa.DataType | None
    """None if the table has no such column yet."""
    slots: list[int]


@dataclass(slots=True)
class FieldBudget:
    """How many new fields may still be added, over all nesting levels."""

    fields: int = MAX_NEW_FIELDS


@dataclass(slots=True)
class FieldIndex:
    """The keys and columns of one nesting level; it grows with the keys seen."""

    column_name: Callable[[str], str]
    infer: bool
    budget: FieldBudget
    columns: list[Column] = field(default_factory=list)
    slots: int = 0
    is_full: bool = False
    _by_name: dict[str, Column] = field(default_factory=dict)
    _slot_of: dict[bytes, int] = field(default_factory=dict)
    _names: Names | None = None

    @property
    def mode(self) -> int:
        """What the compiled loop does with unknown keys."""
        if not self.is_full:
            return RECORD
        return REFUSE if self.infer else IGNORE

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add the columns of the table, each with its name as key."""
        for part in fields:
            column = Column(part.name, part.type, [])
            self.columns.append(column)
            self._by_name[part.name.lower()] = column
            self._give_slot(part.name.encode(), column)

    def add_keys(self, keys: Iterable[bytes]) -> None:
        """Map each key to its column, to a new column, or to none."""
        self._names = None
        for key in keys:
            if len(self._slot_of) >= MAX_KEYS:
                self.is_full = True
                return
            name = self.column_name(_read(key))
            column = self._by_name.get(name.lower())
            if column is None and self.infer:
                if self.budget.fields <= 0:
                    self.is_full = True
                    continue
                self.budget.fields -= 1
                column = Column(name, None, [])
                self.columns.append(column)
                self._by_name[name.lower()] = column
            if column is None:
                self._slot_of[key] = -1
            else:
                self._give_slot(key, column)

    def _give_slot(self, key: bytes, column: Column) -> None:
        self._slot_of[key] = self.slots
        column.slots.append(self.slots)
        self.slots += 1

    def names(self) -> Names:
        if self._names is None:
            joined = b"".join(self._slot_of)
            bounds = np.zeros(len(self._slot_of) + 1, np.int32)
            np.cumsum([len(key) for key in self._slot_of], out=bounds[1:])
            table = np.full(1 << (2 * len(self._slot_of) + 1).bit_length(), -1, np.int32)
            data = np.frombuffer(joined, np.uint8)
            index_names(data, bounds, table)
            slot_of = np.fromiter(self._slot_of.values(), np.int32, len(self._slot_of))
            self._names = (data, bounds, table, slot_of)
        return self._names

    def keys_of(self, column: Column) -> list[str]:
        """The keys of a column as written in the objects, by slot."""
        by_slot = {slot: key for key, slot in self._slot_of.items()}
        return [_read(by_slot[slot]) for slot in column.slots]


def _read(key: bytes) -> str:
    """A key without its escapes."""
    text = key.decode("utf-8", "replace")
    return str(json.loads(f'"{text}"')) if "\\" in text else text
