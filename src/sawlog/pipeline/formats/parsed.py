"""What a format is and what parsing gives: rows that fit, and those that do not with the reason.

Every input value is in exactly one of both; nothing that a producer can send raises an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pyarrow as pa

Kind = Literal["raw", "json", "csv", "avro"]
KINDS: tuple[Kind, ...] = ("raw", "json", "csv", "avro")


class FormatError(ValueError):
    """A format, a schema or one of their options that cannot be used: the user must change it."""


@dataclass(frozen=True)
class Format:
    """How values are written. What the options of each kind are, its parser says."""

    kind: Kind
    options: Mapping[str, str] = field(default_factory=dict)


class BadRow(NamedTuple):
    row: int
    """Its index in the part."""
    reason: str


class Parsed(NamedTuple):
    """What became of some values that follow each other: a part of those that were given."""

    rows: pa.RecordBatch
    kept: pa.Array | None
    """The part's indexes of the rows, ascending; None where every value became one."""
    bad: Sequence[BadRow]
    """Ascending, too."""

    @property
    def values(self) -> int:
        """How many they are."""
        return int(self.rows.num_rows) + len(self.bad)


Parser = Callable[[pa.Array], Iterator[Parsed]]
"""Gives one part after the other, each when it is asked for, so that no more than one is held. At
least one, also of no values; two may have a new field with different types.
"""


def check_options(format_: Format, known: Mapping[str, Sequence[str] | None]) -> None:
    """FormatError for an option that the kind does not have, or a word that it does not know.

    `known` maps each option to its words, or to None where any text will do.
    """
    for name, value in format_.options.items():
        if name not in known:
            there_are = ", ".join(sorted(known)) or "none"
            raise FormatError(
                f"format {format_.kind} has no option {name!r}; there are: {there_are}"
            )
        words = known[name]
        if words is not None and value not in words:
            raise FormatError(
                f"option {name} of format {format_.kind} is {value!r};"
                f" expected one of: {', '.join(words)}"
            )
