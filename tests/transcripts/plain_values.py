"""Messages as plain values and back: the values that a transcript shows.

Values that differ from run to run have placeholders: ids that the broker chooses, addresses, the
time of day, and texts for people.
"""

import re
from collections.abc import Mapping
from typing import Any

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.control_records import read_marker
from sawlog.protocol.layout import FieldLayout, StructLayout, lay_out
from sawlog.protocol.record_batch import BatchHeader, batches_in
from sawlog.protocol.records import iterate
from sawlog.protocol.schema import NO_UUID, Message
from transcripts.group_payloads import PAYLOADS, plain_payload

TODAY_MS = 1_750_000_000_000
"""Timestamps of the scenarios are older than this; newer ones are the time of day."""

WORDS = frozenset({"error_message", "batch_index_error_message", "documentation"})
IDENTITY = ("name", "topic", "topic_id", "resource_name", "api_key", "broker_id", "node_id")
OTHER_IDENTITY = ("topic_name", "user", "transactional_id")
MEMBERSHIP = ("group_id", "member_id", "group_instance_id", "key")
SETS = frozenset({"subscribed_topic_names"})
PATHS = frozenset({"log_dir", "path"})
NUMBERS = ("partition_index", "partition", "index")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$")
MOST_BYTES = 1 << 20
LONGEST = 300


def build(cls: type[Message], fields: Mapping[str, Any]) -> Any:
    """Build a message from nested mappings and lists with the field names of the class."""
    message = cls()
    known = {field.name: field for field in cls.FIELDS}
    for name, value in fields.items():
        inner = known[name].of
        if inner is None or value is None:
            setattr(message, name, value)
        elif isinstance(value, list):
            setattr(message, name, [build(inner, each) for each in value])
        else:
            setattr(message, name, build(inner, value))
    return message


class Names:
    """Placeholders for the ids that a broker chooses, numbered in the order of appearance."""

    def __init__(self, host: str, port: int) -> None:
        self._address = {"host": host, "port": port}
        self._topics: dict[bytes, str] = {}
        self._members: dict[str, str] = {}
        self._log_dir: str | None = None
        self._chosen: dict[str, dict[int, str]] = {"producer_id": {}, "session_id": {}}

    def add_topic(self, topic_id: bytes, name: str) -> None:
        self._topics[topic_id] = f"<id of {name}>"

    def add_number(self, kind: str, value: int) -> None:
        names = self._chosen[kind]
        names.setdefault(value, f"<{kind.removesuffix('_id')} {len(names) + 1}>")

    def add_member(self, member_id: str, client: str) -> None:
        """Name a member id that the broker chose after the client; only its UUID is hidden."""
        if member_id in self._members or not UUID.search(member_id):
            return
        known = sum(each.endswith(f" of {client}>") for each in self._members.values())
        number = f" {known + 1}" if known else ""
        self._members[member_id] = f"<{UUID.sub('UUID', member_id)}{number} of {client}>"

    def add_log_dir(self, path: str) -> None:
        self._log_dir = path

    def scalar(self, name: str, value: Any) -> Any:
        if isinstance(value, bytes):
            if name in PAYLOADS:
                return plain_payload(name, value)
            return "<none>" if value == NO_UUID else self._topics.get(value, value.hex())
        if isinstance(value, str) and value in self._members:
            return self._members[value]
        if name in PATHS and self._log_dir is not None:
            return value.replace(self._log_dir, "<log dir>")
        if name == "cluster_id" and value is not None:
            return "<cluster>"
        if name == "rack":
            return "<rack>"  # the host name in Sawlog, unless configured
        if name in WORDS and value:
            return "<words>"
        if name in self._address and value == self._address[name]:
            return f"<{name}>"
        if name.endswith("error_code"):
            return ErrorCode(value).name
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(name, value)
        return f"<{len(value)} letters>" if _is_long(value) else value

    def _number(self, name: str, value: int) -> int | str:
        kind = name.removeprefix("v3_and_below_").removesuffix("_filters")
        chosen = self._chosen.get(kind, {}).get(value)
        if chosen is not None:
            return chosen
        return "<now>" if TODAY_MS < value < 2 * TODAY_MS else value


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > LONGEST


def plain_response(message: Message, version: int, names: Names) -> dict[str, Any]:
    """All fields of the version; lists that a broker may return in any order are sorted."""
    return _plain(lay_out(type(message), version), message, names)


def _plain(layout: StructLayout, message: Message, names: Names) -> dict[str, Any]:
    fields = (*layout.present, *layout.tagged)
    found = {each.name: _value(each, getattr(message, each.name), names) for each in fields}
    if "error_message" in found and found.get("error_code") != "NONE":
        found["error_message"] = "<words>"  # or null: error messages are optional
    return found


def _value(field: FieldLayout, value: Any, names: Names) -> Any:
    if value is None and field.struct is None:
        return names.scalar(field.name, value)
    if value is None:
        return None
    if field.is_array:
        values = [_value(field.element, each, names) for each in value]
        return sorted(values) if field.name in SETS else _sorted(values)
    if field.kind == "records":
        return plain_batches(value, names)
    if field.struct is not None:
        return _plain(field.struct, value, names)
    return names.scalar(field.name, value)


def _sorted(values: list[Any]) -> list[Any]:
    if values and isinstance(values[0], dict):
        return sorted(values, key=_identity)
    return values


def _identity(value: dict[str, Any]) -> tuple[Any, ...]:
    texts = tuple(str(value.get(key)) for key in (*IDENTITY, *MEMBERSHIP, *OTHER_IDENTITY))
    return (*texts, *(value.get(key, 0) for key in NUMBERS))


def plain_batches(records: Any, names: Names) -> list[Any]:
    """Every batch with its records; an incomplete one at the end as its number of bytes."""
    data = bytes(records)
    batches: list[Any] = []
    end = 0
    try:
        for position, header in batches_in(data):
            end = position + header.size
            batches.append(_plain_batch(data[position:end], header, names))
    except KafkaError as damage:
        return [*batches, f"<no batch: {damage}>"]
    return batches + ([f"<{len(data) - end} bytes>"] if end < len(data) else [])


def _plain_batch(batch: bytes, header: BatchHeader, names: Names) -> dict[str, Any]:
    found = {
        name: names.scalar(name, value)
        for name, value in header._asdict().items()
        if name not in {"crc", "length"}
    }
    if header.is_control:
        marker = read_marker(batch)
        name = marker.control_type.name.lower()
        found["records"] = [f"<{name} of coordinator epoch {marker.coordinator_epoch}>"]
        return found
    records = iterate(batch, max_decompressed_bytes=MOST_BYTES)
    found["records"] = [_text(record.value) for record in records]
    return found


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    return value.decode() if len(value) <= 20 else f"<{len(value)} bytes>"


def plain_request(fields: Any, names: Names, name: str = "") -> Any:
    """The fields that the scenario set, with batches as their size."""
    if isinstance(fields, Mapping):
        return {key: plain_request(value, names, key) for key, value in fields.items()}
    if isinstance(fields, list):
        return [plain_request(each, names, name) for each in fields]
    if name == "records" and fields is not None:
        return f"<{len(fields)} bytes>"
    return names.scalar(name, fields)
