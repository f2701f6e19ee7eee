"""Formats and the result of parsing: good rows, and bad rows with a reason.

Every value is one or the other; nothing that a producer can send raises an error.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.registry.registry_url import RegistryUrl

Kind = Literal["raw", "json", "csv", "avro", "protobuf"]
KINDS: tuple[Kind, ...] = ("raw", "json", "csv", "avro", "protobuf")


class FormatError(ValueError):
    """An invalid format, schema or option."""


@dataclass(frozen=True)
class Format:
    """The format of values; each parser documents its options.

    With a registry, the schemas of the values are there; `key_registry` has those of keys, which
    are decoded in keyed tables only and may be framed if values are not. With an `envelope` a value
    is a change event, and its row is parsed: `debezium`, or empty if a value is a row.
    `epoch_millis` are the paths of timestamps whose numbers are milliseconds, and `hinted_bigints`
    those of integers that stay so, both in JSON.
    """

    kind: Kind
    options: Mapping[str, str] = field(default_factory=dict)
    registry: RegistryUrl | None = None
    epoch_millis: Sequence[str] = ()
    hinted_bigints: Sequence[str] = ()
    envelope: str = ""
    key_registry: RegistryUrl | None = None

    @property
    def any_registry(self) -> RegistryUrl | None:
        """The registry that tasks ask, of which there is one."""
        return self.registry if self.key_registry is None else self.key_registry


class ColumnRules(NamedTuple):
    """The columns of a table while values are parsed, and whether values may add to them.

    Without `infer` there are only the known columns. With it, new fields become columns with
    inferred types, unless `are_final`: then a value that needs a new column is a bad row, because
    `known` has the columns of an earlier pass over the same values. `generated` are column names,
    in lower case, that fields cannot have.
    """

    known: pa.Schema  # of plain types
    infer: bool
    are_final: bool = False
    generated: Collection[str] = ()


class BadRow(NamedTuple):
    row: int
    """The index in the part."""
    reason: str


class Parsed(NamedTuple):
    """The result for a part of the values: consecutive ones, in order."""

    rows: pa.RecordBatch
    kept: pa.Array | None
    """The ascending indexes of good values; None if all are good."""
    bad: Sequence[BadRow]
    """Ascending by index."""
    widen: Collection[str] = ()
    """The paths of bigint columns that would fit more of the values if they were double."""

    @property
    def values(self) -> int:
        """The number of values in the part."""
        return int(self.rows.num_rows) + len(self.bad)


def reject_rows(parsed: Parsed, is_bad: pa.Array, reason: str) -> Parsed:
    """Make the good rows bad for which `is_bad` is true."""
    if not pc.any(is_bad).as_py():
        return parsed
    kept = parsed.kept
    if kept is None:
        kept = pa.array(range(parsed.values), pa.int64())
    more = [BadRow(row, reason) for row in kept.filter(is_bad).to_pylist()]
    stays = pc.invert(is_bad)
    return parsed._replace(
        rows=parsed.rows.filter(stays), kept=kept.filter(stays), bad=sorted([*parsed.bad, *more])
    )


Parser = Callable[[pa.Array], Iterator[Parsed]]
"""Takes values, or what `parser_input` returns, and yields one part after another, so that only one
is in memory. There is at least one part, even of no values; two parts may have a new field with
different types.
"""


def check_options(format_: Format, known: Mapping[str, Sequence[str] | None]) -> None:
    """Raise FormatError for an unknown option or value.

    `known` maps each option to its allowed values, or to None if any text is allowed.
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
