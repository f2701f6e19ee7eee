"""Values and keys in Confluent's framing, as the serializers of confluent-kafka write them."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sawlog.pipeline.formats.landed_rows import HEADERS

Headers = list[tuple[str, bytes]]


class Sent(NamedTuple):
    value: bytes
    headers: Headers


class Serializers:
    """Serializers of the values, or keys, of a topic; `in_header` puts the GUID into a header."""

    def __init__(
        self, url: str, topic: str = "t", *, in_header: bool = False, is_key: bool = False
    ) -> None:
        self._client = SchemaRegistryClient({"url": url})
        self._topic = topic
        self._part = MessageField.KEY if is_key else MessageField.VALUE
        self._avro: dict[str, AvroSerializer] = {}  # each asks for the id of its schema once
        self._settings = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def avro(self, schema: Any, row: Any) -> Sent:
        text = json.dumps(schema)
        if text not in self._avro:
            self._avro[text] = AvroSerializer(self._client, text, conf=self._settings)
        return self._sent(self._avro[text], row)

    def json(self, schema: Any, row: Mapping[str, Any]) -> Sent:
        text = json.dumps(schema)
        return self._sent(JSONSerializer(text, self._client, conf=self._settings), row)

    def protobuf(self, message: Any) -> Sent:
        serializer = ProtobufSerializer(type(message), self._client, conf=self._settings)
        return self._sent(serializer, message)

    def _sent(self, serializer: Any, row: Any) -> Sent:
        headers: Headers = []
        context = SerializationContext(self._topic, self._part, headers)
        return Sent(serializer(row, context), headers)


def record_batch(*sent: Sent | bytes | None) -> pa.RecordBatch:
    """Records as they are fetched, with the columns that parsers read."""
    records = [one if isinstance(one, Sent) else Sent(one, []) for one in sent]  # type: ignore[arg-type]
    headers = [[{"key": k, "value": v} for k, v in one.headers] for one in records]
    return pa.RecordBatch.from_arrays(
        [pa.array([one.value for one in records], pa.binary()), pa.array(headers, HEADERS)],
        names=["value", "headers"],
    )
