"""Texts to dates, numbers and the like by Arrow's casts, with the texts that do not fit told apart.

A cast fails as a whole, so a failing array is halved until what does not fit stands alone. Times
without a zone are UTC; digits beyond microseconds are cut off.
"""

import base64
import binascii
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sawlog.pipeline.formats.compiled import Flags
from sawlog.pipeline.formats.types import TIMESTAMP, plain

Cast = Callable[[pa.Array], pa.Array]
_ZONE = r"(?i)[0-9](z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_DATE_AND_TIME = r"^[^:]*[ T][0-9]{2}(:|[0-9]|$)"
_TOO_FINE = r"(\.[0-9]{6})[0-9]+"


def cast_texts(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, Flags]:
    """The texts as that type, null where they do not fit, which the flags tell."""
    type_ = plain(type_)
    if pa.types.is_string(type_):
        return texts, np.zeros(len(texts), np.bool_)
    if pa.types.is_timestamp(type_):
        return _apart(texts, TIMESTAMP, _to_timestamps)
    if pa.types.is_binary(type_):
        return _apart(texts, type_, _from_base64)
    return _apart(texts, type_, lambda some: pc.cast(some, type_))


def _apart(texts: pa.Array, type_: pa.DataType, cast: Cast) -> tuple[pa.Array, Flags]:
    bad = np.zeros(len(texts), np.bool_)
    parts: list[pa.Array] = []
    waiting = [(0, len(texts))]
    while waiting:
        start, stop = waiting.pop()
        try:
            parts.append(cast(texts.slice(start, stop - start)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, binascii.Error):
            if stop - start == 1:
                bad[start] = True
                parts.append(pa.nulls(1, type_))
                continue
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return pa.concat_arrays(parts) if len(parts) != 1 else parts[0], bad


def _to_timestamps(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, TIMESTAMP)
    except pa.ArrowInvalid:
        pass
    texts = pc.replace_substring_regex(texts, _TOO_FINE, r"\1")
    has_zone = pc.and_(
        pc.match_substring_regex(texts, _ZONE), pc.match_substring_regex(texts, _DATE_AND_TIME)
    )
    none = pa.scalar(None, pa.string())
    zoned = pc.cast(pc.if_else(has_zone, texts, none), TIMESTAMP)
    local = pc.cast(pc.if_else(has_zone, none, texts), pa.timestamp("us"))
    return pc.coalesce(zoned, pc.assume_timezone(local, "UTC"))


def _from_base64(texts: pa.Array) -> pa.Array:
    values = (
        None if text is None else base64.b64decode(text.encode(), validate=True)
        for text in texts.to_pylist()
    )
    return pa.array(list(values), pa.binary())
