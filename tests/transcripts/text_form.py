"""The text form of a transcript: one block per step, one line per element, defaults left out.

    # two partitions, one of them unknown
    Produce v9 acks=-1 timeout_ms=10000
      orders-0 records=<69 bytes>
      orders-7 records=<69 bytes>
    -> orders-0 NONE base_offset=0 log_start_offset=0
       orders-7 UNKNOWN_TOPIC_OR_PARTITION error_message=<words> log_start_offset=<any>

The API and its version determine the fields of a message, so a field that is left out has its
default value: different responses have different texts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sawlog.core.errors import ErrorCode
from sawlog.protocol.layout import FieldLayout, StructLayout
from sawlog.protocol.schema import NO_UUID

WIDTH = 100
INDENT = "  "
LONGEST = 40
TOPIC_KEYS = ("name", "topic", "topic_name", "topic_id")
PARTITION_KEYS = ("partition_index", "partition", "index")
OTHER_KEYS = ("group_id", "member_id", "resource_name", "key", "node_id", "broker_id", "api_key")
ALWAYS_SHOWN = frozenset(
    {"base_offset", "offset", "fetch_offset", "high_watermark", "committed_offset", "member_epoch"}
)
USUAL = {
    "aborted_transactions": None,
    "client_host": "/127.0.0.1",
    "client_id": "script",
    "documentation": None,
    "subscribed_topic_regex": "",
}
"""Values that are left out although they are not the defaults of the protocol; those are shown."""
SIMPLE = re.compile(r"[\w.,:;/+*@!?'()-]+$")
BATCH_DEFAULTS = {
    "leader_epoch": 0,
    "magic": 2,
    "attributes": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
}


class Element(NamedTuple):
    """One line, and the lines that belong to it.

    `key` names the element (`orders`, `orders-0`, `members anna`), `fields` are its scalars. An
    only child follows on the same line, behind `|`, where both fit.
    """

    key: str
    fields: tuple[str, ...]
    children: tuple["Element", ...] = ()

    @property
    def head(self) -> str:
        return " ".join(filter(None, (self.key, *self.fields)))

    def lines(self, width: int = WIDTH) -> list[str]:
        if len(self.head) > width and any(map(_is_compound, self.fields)):
            return self._with_compounds_below().lines(width)
        inner = [child.lines(width - len(INDENT)) for child in self.children]
        if len(inner) == 1 and len(inner[0]) == 1:
            line = f"{self.head} | {inner[0][0]}" if self.head else inner[0][0]
            if len(line) <= width:
                return [line]
        return [self.head, *(INDENT + line for lines in inner for line in lines)]

    def _with_compounds_below(self) -> "Element":
        """The same element with its lists and mappings on lines of their own."""
        below = [Element(field, ()) for field in self.fields if _is_compound(field)]
        fields = tuple(field for field in self.fields if not _is_compound(field))
        return Element(self.key, fields, (*below, *self.children))


def _is_compound(field: str) -> bool:
    return field.endswith(("]", "}"))


def element(
    key: str, value: Mapping[str, Any], layout: StructLayout | None, key_field: str | None = None
) -> Element:
    """A structure of a message; `key_field` is the field that `key` shows already."""
    fields = _fields_of(layout)
    scalars: list[str] = []
    children: list[Element] = []
    if "error_code" in value:
        scalars.append(scalar(value["error_code"]))
    for name, each in value.items():
        field = fields.get(name)
        if name in ("error_code", key_field) or _is_default(field, each):
            continue
        if name == "records" and isinstance(each, list):
            children += [_batch(batch) for batch in each] or [Element("records=[]", ())]
        elif field is not None and field.struct is not None and each and not isinstance(each, str):
            children += _nested(name, each, field)
        else:
            scalars.append(f"{name}={scalar(each)}")
    return Element(key, tuple(scalars), tuple(children))


def _nested(name: str, value: Any, field: FieldLayout) -> list[Element]:
    struct = field.struct
    assert struct is not None
    if not field.is_array:
        found = element(name, value, struct)
        is_shown = field.is_nullable or found.fields or found.children
        return [found] if is_shown else []
    partitions = _partitions_of(struct)
    if partitions is not None:
        return _topics(value, struct, partitions)
    return [_keyed(each, struct, f"{name} ") for each in value]


def _keyed(value: Mapping[str, Any], struct: StructLayout, prefix: str) -> Element:
    field = _key_field(struct, value)
    key = "" if field is None else scalar(value[field])
    return element(f"{prefix}{key}".rstrip(), value, struct, field)


def _topics(
    topics: list[dict[str, Any]], struct: StructLayout, partitions: FieldLayout
) -> list[Element]:
    """Topics with their partitions, as `orders-0`; a topic that is there again is marked."""
    assert partitions.struct is not None
    found: list[Element] = []
    previous = None
    for topic in topics:
        inner = topic.get(partitions.name)
        rest = {key: each for key, each in topic.items() if key != partitions.name}
        own = _keyed(rest, struct, "")
        marks = ("again",) if own.key == previous else ()
        if not inner:
            marks = (*marks, f"{partitions.name}={scalar(inner)}")
        own = own._replace(fields=(*own.fields, *marks))
        if own.fields or own.children:
            found.append(own)
        found += [_keyed(each, partitions.struct, f"{own.key}-") for each in inner or ()]
        previous = own.key
    return found


def _partitions_of(struct: StructLayout) -> FieldLayout | None:
    """The field with the partitions, where the structure is a topic with partitions."""
    if _key_field(struct) not in TOPIC_KEYS:
        return None
    arrays = [each for each in _fields_of(struct).values() if each.is_array and each.struct]
    if len(arrays) != 1 or arrays[0].struct is None:
        return None
    return arrays[0] if _key_field(arrays[0].struct) in PARTITION_KEYS else None


def _batch(batch: Any) -> Element:
    """A record batch; a header field that follows from the records is left out."""
    if isinstance(batch, str):
        return Element("batch", (batch,))
    derived = {
        **BATCH_DEFAULTS,
        "max_timestamp": batch["base_timestamp"],
        "last_offset_delta": len(batch["records"]) - 1,
        "count": len(batch["records"]),
    }
    fields = (
        f"{name}={scalar(value)}"
        for name, value in batch.items()
        if name not in derived or value != derived[name]
    )
    return Element("batch", tuple(fields))


def _fields_of(layout: StructLayout | None) -> dict[str, FieldLayout]:
    if layout is None:
        return {}
    return {each.name: each for each in (*layout.present, *layout.tagged)}


def _key_field(layout: StructLayout, value: Mapping[str, Any] | None = None) -> str | None:
    """The field that tells an element from its neighbours; it is written without its name."""
    fields = _fields_of(layout)
    keys = (*TOPIC_KEYS, *PARTITION_KEYS, *OTHER_KEYS)
    return next((key for key in keys if key in (fields if value is None else value)), None)


def _is_default(layout: FieldLayout | None, value: Any) -> bool:
    if layout is None or layout.name in ALWAYS_SHOWN:
        return False
    if layout.name in USUAL:
        return bool(value == USUAL[layout.name])
    field = layout.field
    default = field.default if field.factory is None else field.factory()
    if layout.struct is not None and not layout.is_array:
        return value is None and layout.is_nullable
    if layout.name.endswith("error_code"):
        default = ErrorCode(default).name
    elif isinstance(default, bytes):
        default = "<none>" if default == NO_UUID else default.decode()
    return type(value) is type(default) and bool(value == default)


def scalar(value: Any) -> str:
    """A value on one line; strings are quoted only where they could be taken for something else."""
    match value:
        case str() if len(value) > LONGEST and len(set(value)) == 1:
            return f"<{len(value)} times {value[0]}>"
        case str():
            is_placeholder = value.startswith("<") and value.endswith(">")
            is_plain = SIMPLE.match(value) and value != "null"
            return value if is_placeholder or is_plain else json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + " ".join(f"{key}={scalar(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + " ".join(scalar(each) for each in value) + "]"
    return json.dumps(value)
