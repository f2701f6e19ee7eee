"""What a format is and what parsing gives: rows that fit, and those that do not with the reason.

Every input value is in exactly one of both; nothing that a producer can send raises an error.
"""

from collections.abc import Callable, Mapping, Sequence
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
    """Its index in the input."""
    reason: str


class Parsed(NamedTuple):
    rows: pa.RecordBatch
    kept: pa.Array | None
    """The input's indexes of the rows, ascending; None where every value became one."""
    bad: Sequence[BadRow]
    """Ascending, too."""


Parser = Callable[[pa.Array], Parsed]


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
