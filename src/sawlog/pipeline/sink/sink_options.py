"""The options of the sink: target, and producer settings.

Names and meanings are those of Spark's Kafka connector and of the Java producer. Options that would
change what is written and are not supported (serializers, partitioners, transactions) are rejected.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sawlog.pipeline.source.client_options import SHARED_OPTIONS, Brokers, read_brokers
from sawlog.pipeline.source.option_values import LONG, BadOption, Options, flag, one_of, whole
from sawlog.protocol.compression import Codec

WHAT = "the sink 'sawlog'"
ALL_REPLICAS = -1
_CODECS = {codec.name.lower(): codec for codec in Codec}
_ACKS = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "0": 0, "1": 1}
_OF_SPARK = ("checkpointLocation", "queryName")  # passed to every sink by Spark
_REFUSED = {
    "kafka.key.serializer": "keys are written as they are: bytes, or strings in UTF-8",
    "kafka.value.serializer": "values are written as they are: bytes, or strings in UTF-8",
    "kafka.partitioner.class": "rows go to their 'partition', or where their key belongs as with"
    " the Java client; add a column 'partition'",
    "kafka.interceptor.classes": "interceptors are not supported",
    "kafka.transactional.id": "set 'exactlyOnce' to true; each task has an id of its own",
}
_WITHOUT_EFFECT = (
    "includeHeaders",  # headers are written if there is such a column
    "kafka.client.dns.lookup",
    "kafka.connections.max.idle.ms",
    "kafka.linger.ms",  # rows come in batches
    "kafka.max.in.flight.requests.per.connection",
    "kafka.metadata.max.age.ms",
    "kafka.receive.buffer.bytes",
    "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.retries",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.send.buffer.bytes",
    "kafka.socket.connection.setup.timeout.max.ms",
    "kafka.socket.connection.setup.timeout.ms",
)
_NAMES = (
    "topic",
    "exactlyOnce",
    "markerTopic",
    "kafka.transaction.timeout.ms",
    *SHARED_OPTIONS,
    "kafka.acks",
    "kafka.enable.idempotence",
    "kafka.compression.type",
    "kafka.batch.size",
    "kafka.buffer.memory",
    "kafka.max.request.size",
    "kafka.max.block.ms",
    "kafka.delivery.timeout.ms",
    *_REFUSED,
    *_WITHOUT_EFFECT,
    *_OF_SPARK,
)


DEFAULT_TRANSACTION_TIMEOUT_MS = 900_000  # the highest that brokers accept by default


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """`marker_topic` exists; offsets of its partition 0 are the markers of committed batches."""

    marker_topic: str
    transaction_timeout_ms: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    brokers: Brokers
    topic: str | None  # None: each row has its own
    acks: int
    idempotent: bool
    codec: Codec
    batch_bytes: int
    buffer_bytes: int
    max_request_bytes: int
    delivery_timeout_ms: int
    exactly_once: ExactlyOnce | None


def read_sink_options(written: Mapping[str, str]) -> SinkOptions:
    """Parse the options. Raises BadOption."""
    options = Options(written, _NAMES, WHAT)
    for name in options.given(tuple(_REFUSED)):
        raise BadOption(f"the option {name!r} is not supported: {_REFUSED[name]}")
    acks = _ACKS[options.read("kafka.acks", one_of(*_ACKS), "all")]
    idempotent = options.read("kafka.enable.idempotence", flag, acks == ALL_REPLICAS)
    if idempotent and acks != ALL_REPLICAS:
        raise BadOption("'kafka.enable.idempotence' needs 'kafka.acks' to be 'all'")
    codec = options.read("kafka.compression.type", one_of(*_CODECS), "none")
    return SinkOptions(
        brokers=_brokers(options),
        topic=options.text("topic") or None,
        acks=acks,
        idempotent=idempotent,
        codec=_CODECS[codec],
        batch_bytes=options.read("kafka.batch.size", whole(0), 256 * 1024),
        buffer_bytes=options.read("kafka.buffer.memory", whole(1, LONG), 32 * 1024 * 1024),
        max_request_bytes=options.read("kafka.max.request.size", whole(1), 1024 * 1024),
        delivery_timeout_ms=options.read("kafka.delivery.timeout.ms", whole(1), 120_000),
        exactly_once=_exactly_once(options, idempotent=idempotent),
    )


def _exactly_once(options: Options, *, idempotent: bool) -> ExactlyOnce | None:
    if not options.read("exactlyOnce", flag, False):
        for name in options.given(("markerTopic", "kafka.transaction.timeout.ms")):
            raise BadOption(f"the option {name!r} needs 'exactlyOnce' to be true")
        return None
    if not idempotent:
        raise BadOption("'exactlyOnce' needs 'kafka.acks' to be 'all', and idempotence")
    marker_topic = options.text("markerTopic")
    if not marker_topic:
        raise BadOption(
            "'exactlyOnce' needs the option 'markerTopic': an existing topic, under whose name the"
            " progress of the query is committed; nothing is written to it"
        )
    timeout_ms = options.read(
        "kafka.transaction.timeout.ms", whole(1), DEFAULT_TRANSACTION_TIMEOUT_MS
    )
    return ExactlyOnce(marker_topic, timeout_ms)


def _brokers(options: Options) -> Brokers:
    brokers = read_brokers(options)
    timeout_ms = options.read("kafka.max.block.ms", whole(1, LONG), brokers.timeout_ms)
    return Brokers(brokers.bootstrap, brokers.client_id, brokers.request_timeout_ms, timeout_ms)
