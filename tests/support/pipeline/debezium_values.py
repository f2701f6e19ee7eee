"""Change events of Debezium with a schema, as its connector for PostgreSQL registers them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Event(NamedTuple):
    """An event, or a tombstone if it has no `op`."""

    op: str | None
    before: Row | None = None
    after: Row | None = None

    @property
    def envelope(self) -> dict[str, Any]:
        """The value, with the other fields that an envelope has."""
        source = {"version": "3.3", "name": "shop", "ts_ms": 1, "lsn": 7, "snapshot": "false"}
        return {"before": self.before, "after": self.after, "source": source, "op": self.op,
                "ts_ms": 2, "transaction": None}  # fmt: skip


def optional(kind: Any) -> dict[str, Any]:
    """A nullable field, as Connect's converter writes it."""
    return {"type": ["null", kind], "default": None}


def envelope_schema(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The Avro schema of an envelope whose rows have these fields; `after` refers to the record."""
    row = {"type": "record", "name": "Value", "fields": list(fields),
           "connect.name": "shop.public.orders.Value"}  # fmt: skip
    snapshot = {"type": "enum", "name": "Snapshot", "symbols": ["true", "false", "last"]}
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [
            {"name": "version", "type": "string"},
            {"name": "name", "type": "string"},
            {"name": "ts_ms", "type": "long"},
            {"name": "snapshot", **optional(snapshot)},
            {"name": "lsn", **optional("long")},
        ],
    }
    block = {"type": "record", "name": "block", "namespace": "event",
             "fields": [{"name": "id", "type": "string"}]}  # fmt: skip
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {"name": "before", **optional(row)},
            {"name": "after", **optional("Value")},
            {"name": "source", "type": source},
            {"name": "transaction", **optional(block)},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", **optional("long")},
        ],
        "connect.name": "shop.public.orders.Envelope",
    }
