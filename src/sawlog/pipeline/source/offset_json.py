"""Positions in topics as JSON and as values: start, end, and the offsets of a stream.

The JSON is that of Spark's Kafka connector, `{"logs": {"0": 5}}`. The offsets of a stream have one
more key, "@start", which no topic can have: the start of the batch in partitions that the previous
offset does not know or that Spark does not store (those of the first batch). So a repeated batch
reads the same records, whatever the topics have by then.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

Offsets = dict[TopicPartition, int]

LATEST_OFFSET = -1
EARLIEST_OFFSET = -2
_START = "@start"
_HIGHEST = (1 << 63) - 1
_HIGHEST_PARTITION = (1 << 31) - 1


class Mark(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; -2 is the earliest, -1 the latest."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time, for each partition."""

    times_ms: Offsets


@dataclass(frozen=True, slots=True)
class AtSameTime:
    """The same time for all partitions."""

    time_ms: int


Where = Mark | AtOffsets | AtTimes | AtSameTime


class StreamOffset(NamedTuple):
    """The offsets of a stream: all records below are read. `starts` is the value of "@start"."""

    offsets: Offsets
    starts: Offsets

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = write_offsets(self.offsets)
        if self.starts:
            found[_START] = write_offsets(self.starts)
        return found


def read_stream_offset(value: Mapping[str, Any]) -> StreamOffset:
    rest = {topic: offsets for topic, offsets in value.items() if topic != _START}
    return StreamOffset(_read(rest, 0, "offset"), _read(value.get(_START, {}), 0, "offset"))


def write_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Encode offsets in a defined order, so that equal offsets are equal text."""
    found: dict[str, dict[str, int]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(index)] = offset
    return found


def parse_offsets(text: str) -> AtOffsets:
    """Parse `{"logs": {"0": 23, "1": -2}}`. Raises ValueError."""
    return AtOffsets(_read(_parse_json(text), EARLIEST_OFFSET, "offset"))


def parse_times(text: str) -> AtTimes:
    """Parse `{"logs": {"0": 1000}}`, in ms since 1970."""
    return AtTimes(_read(_parse_json(text), 0, "time in ms"))


def parse_where(text: str) -> Where:
    """Parse `earliest`, `latest` or offsets as JSON."""
    if text.lower() in (Mark.EARLIEST.value, Mark.LATEST.value):
        return Mark(text.lower())
    try:
        return parse_offsets(text)
    except ValueError as error:
        raise ValueError(f"it takes 'earliest', 'latest' or offsets; {error}") from None


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Parse `{"logs": [0, 1]}`."""
    form = 'partitions are written {"topic": [0, 1]}'
    found: set[TopicPartition] = set()
    for topic, indexes in _object(_parse_json(text), form).items():
        if not isinstance(indexes, list) or not all(_is_index(index) for index in indexes):
            raise ValueError(f"{form}; of {topic!r} it says {json.dumps(indexes)}")
        found.update(partition_of(topic, index) for index in indexes)
    if not found:
        raise ValueError(f"it names no partition; {form}")
    return tuple(sorted(found))


def describe_partitions(partitions: Iterable[TopicPartition], at_most: int = 10) -> str:
    """The partitions for a message; a long list is cut."""
    every = sorted(partitions)
    rest = len(every) - at_most
    shown = ", ".join(str(partition) for partition in every[:at_most])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _read(value: object, lowest: int, what: str) -> Offsets:
    form = f'write {{"topic": {{"0": {what}}}}}'
    found: Offsets = {}
    for topic, entries in _object(value, form).items():
        for index, number in _object(entries, form).items():
            if not index.isascii() or not index.isdecimal() or not _is_index(int(index)):
                raise ValueError(f"{topic!r} has no partition {index!r}; {form}")
            if isinstance(number, bool) or not isinstance(number, int):
                raise ValueError(f"{topic}-{index} has {json.dumps(number)}; {form}")
            if not lowest <= number <= _HIGHEST:
                raise ValueError(f"{topic}-{index} has {number}, and the lowest is {lowest}")
            found[partition_of(topic, int(index))] = number
    return dict(sorted(found.items()))


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None


def _object(value: object, form: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{form}, not {json.dumps(value)}")
    return value


def _is_index(value: object) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST_PARTITION
    )
