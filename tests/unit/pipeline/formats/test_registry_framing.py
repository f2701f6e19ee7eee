"""Confluent's framing: ids and GUIDs before a value or in a header."""

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.pipeline.formats.registry_framing import (
    NO_FRAME,
    message_indexes,
    read_frames,
)

GUID = uuid.UUID(int=7)


def ids(values: list[bytes | None], headers: list[bytes | None] | None = None) -> list[object]:
    """The id of each value with the start of its payload, or the reason why there is none."""
    frames = read_frames(
        pa.array(values, pa.binary()), None if headers is None else pa.array(headers, pa.binary())
    )
    return [
        frames.bad[row] if code < 0 else (frames.ids[code], int(frames.starts[row]))
        for row, code in enumerate(frames.codes.tolist())
    ]


def test_ids_and_guids_stand_before_the_value() -> None:
    guid = b"\1" + GUID.bytes
    values = [b"\0\0\0\1\2x", guid + b"x", b"\0\0\0\1\2", None, b"", b"\0\0\0\1", guid[:-1], b"{}"]
    assert ids(values) == [
        (258, 5), (str(GUID), 17), (258, 5), "no value", NO_FRAME, NO_FRAME, NO_FRAME, NO_FRAME,
    ]  # fmt: skip


def test_an_id_beyond_31_bits_is_none() -> None:
    (reason,) = ids([b"\0\x80\0\0\0"])
    assert reason == f"{NO_FRAME}; an id has at most 31 bits"


def test_a_header_takes_precedence() -> None:
    values = [b"\0\0\0\0\1", b"plain", None, b"\0\0\0\0\1", b"\0\0\0\0\1"]
    headers = [b"\0\0\0\0\2", b"\1" + GUID.bytes, b"\0\0\0\0\2", None, b"?"]
    assert ids(values, headers) == [
        (2, 5), (str(GUID), 17), "no value", (1, 5), f"header __value_schema_id: {NO_FRAME}",
    ]  # fmt: skip


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 3))
def test_every_value_has_an_id_or_a_reason(values: list[bytes | None], skipped: int) -> None:
    array = pa.array(values, pa.binary()).slice(min(skipped, len(values)))
    frames = read_frames(array, None)
    assert {row for row, code in enumerate(frames.codes.tolist()) if code < 0} == frames.bad.keys()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\0x", ((0,), 1)),
        (b"\2\2x", ((1,), 2)),
        (b"\4\2\0x", ((1, 0), 3)),
        (b"\2\xac\2", ((150,), 3)),
        (b"", None),
        (b"\4\2", None),
        (b"\1", None),  # minus one
        (b"\2\1", None),
        (b"\xff" * 6, None),
        (b"\xff\xff\x03", None),  # more than a hundred
    ],
)
def test_places_of_messages(data: bytes, found: tuple[tuple[int, ...], int] | None) -> None:
    assert message_indexes(b"xx" + data, 2) == (found and (found[0], found[1] + 2))
