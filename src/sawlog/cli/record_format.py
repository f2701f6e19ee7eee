"""Records as lines of text, printed by `sawlog consume` and read by `sawlog produce`.

In JSON, a key or value that is UTF-8 is a string (`"key"`), any other is base64 (`"key_base64"`),
so that records survive a round trip unchanged.
"""

import base64
import binascii
import json
from typing import Any, NamedTuple

from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.protocol.records import Headers

_KNOWN = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
    | {"key_base64", "value_base64"}
)
_PARTITIONS = range(2**31)
_TIMESTAMPS = range(-1, 2**63 - 1)  # -1 is none; the difference of any two fits 64 bits


class Line(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class InvalidRecord(ValueError):
    """A line cannot be parsed as a record; the message says why."""


def to_json(record: ConsumedRecord) -> str:
    entry: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **to_json_fields(record.key, record.value, record.headers),
    }
    return json.dumps(entry, ensure_ascii=False)


def to_json_fields(key: bytes | None, value: bytes | None, headers: Headers) -> dict[str, Any]:
    fields: dict[str, Any] = {**_field("key", key), **_field("value", value)}
    if headers:
        fields["headers"] = [{"name": n, **_field("value", v)} for n, v in headers]
    return fields


def from_json(text: bytes) -> Line:
    """Parse the JSON of a record; `topic` and `offset` are ignored. Raises InvalidRecord."""
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise InvalidRecord(f"invalid JSON: {error}") from None
    except RecursionError:
        raise InvalidRecord("the JSON is nested too deeply") from None
    if not isinstance(entry, dict):
        raise InvalidRecord("expected a JSON object with key, value, headers, partition, timestamp")
    unknown = sorted(entry.keys() - _KNOWN)
    if unknown:
        raise InvalidRecord(f"unknown field {unknown[0]!r}; expected {', '.join(sorted(_KNOWN))}")
    return Line(
        _bytes(entry, "key"),
        _bytes(entry, "value"),
        _headers(entry.get("headers")),
        _number(entry, "partition", _PARTITIONS),
        _number(entry, "timestamp", _TIMESTAMPS),
    )


def to_columns(record: ConsumedRecord, columns: tuple[str, ...], separator: bytes) -> bytes:
    """Join the given columns and the value, as raw bytes."""
    shown = [_column(record, column) for column in columns]
    return separator.join([*shown, record.value if record.value is not None else b""])


def _column(record: ConsumedRecord, column: str) -> bytes:
    if column == "key":
        return record.key if record.key is not None else b""
    if column == "headers":
        return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)
    return str(getattr(record, column)).encode()


def _field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _bytes(entry: dict[str, Any], name: str) -> bytes | None:
    encoded = entry.get(f"{name}_base64")
    value = entry.get(name)
    if encoded is not None:
        if name in entry:
            raise InvalidRecord(f"{name} and {name}_base64 exclude each other; give one of them")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise InvalidRecord(f"{name}_base64 is not valid base64") from None
    if value is None:
        return None
    if isinstance(value, str):
        return _encoded(name, value)
    raise InvalidRecord(f"{name}: expected a string or null, not {_shown(value)}")


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        unit = text[error.start].encode("utf-16-be", "surrogatepass").hex()
        raise InvalidRecord(f"{name} contains the lone surrogate \\u{unit}") from None


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value)[:40]


def _headers(entries: Any) -> Headers:
    if entries is None:
        return ()
    if isinstance(entries, dict):
        entries = [{"name": name, "value": value} for name, value in entries.items()]
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
    ):
        raise InvalidRecord('headers: expected a list of {"name": ..., "value": ...}, or an object')
    for entry in entries:
        _encoded("a header name", entry["name"])
    return tuple((entry["name"], _bytes(entry, "value")) for entry in entries)


def _number(entry: dict[str, Any], name: str, allowed: range) -> int | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRecord(f"{name}: expected an integer, not {_shown(value)}")
    if value not in allowed:
        raise InvalidRecord(f"{name}: expected an integer from {allowed[0]} to {allowed[-1]}")
    return value
