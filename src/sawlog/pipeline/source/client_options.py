"""The `kafka.*` options that source and sink share: brokers, timeouts, sizes, isolation.

Java client settings without a counterpart here are ignored if they cannot change what is read
(buffers, backoffs, sessions), and rejected with a reason if they would.
"""

from dataclasses import dataclass

from sawlog.client.net.cluster import DEFAULT_TIMEOUT_MS, Cluster
from sawlog.client.net.connection import DEFAULT_REQUEST_TIMEOUT_MS
from sawlog.pipeline.source.option_values import BadOption, Options, addresses, one_of, whole

BOOTSTRAP = "kafka.bootstrap.servers"
GROUP = "kafka.group.id"
DEFAULT_CLIENT_ID = "sawlog-spark"
DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
_MAX_REQUEST_MS = 86_400_000  # the largest value means no timeout

_REFUSED = {
    "kafka.auto.offset.reset": "set 'startingOffsets' instead",
    "kafka.key.deserializer": "keys are bytes; convert them with Spark functions",
    "kafka.value.deserializer": "values are bytes; turn them into something else by Spark's"
    " functions",
    "kafka.enable.auto.commit": "offsets are committed after each batch anyway; name a group"
    f" by {GROUP!r}",
    "kafka.interceptor.classes": "interceptors are not supported",
}
_WITHOUT_EFFECT = (
    "kafka.allow.auto.create.topics",
    "kafka.check.crcs",
    "kafka.client.dns.lookup",
    "kafka.client.rack",
    "kafka.connections.max.idle.ms",
    "kafka.exclude.internal.topics",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.instance.id",
    "kafka.heartbeat.interval.ms",
    "kafka.max.poll.interval.ms",
    "kafka.max.poll.records",
    "kafka.metadata.max.age.ms",
    "kafka.partition.assignment.strategy",
    "kafka.receive.buffer.bytes",
    "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.send.buffer.bytes",
    "kafka.session.timeout.ms",
    "kafka.socket.connection.setup.timeout.max.ms",
    "kafka.socket.connection.setup.timeout.ms",
)
SHARED_OPTIONS = (
    BOOTSTRAP,
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.security.protocol",
)
CLIENT_OPTIONS = (
    *SHARED_OPTIONS,
    GROUP,
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    *_REFUSED,
    *_WITHOUT_EFFECT,
)


@dataclass(frozen=True, slots=True)
class Brokers:
    """How to reach a cluster; unlike a Cluster it can be sent to other processes."""

    bootstrap: str
    client_id: str = DEFAULT_CLIENT_ID
    request_timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS
    timeout_ms: int = DEFAULT_TIMEOUT_MS

    def connect(self, *, timeout_ms: float | None = None) -> Cluster:
        return Cluster(
            self.bootstrap,
            client_id=self.client_id,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class ClientSettings:
    brokers: Brokers
    group: str | None
    read_committed: bool
    fetch_bytes: int


def read_client_settings(options: Options) -> ClientSettings:
    for name in options.given(tuple(_REFUSED)):
        raise BadOption(f"the option {name!r} is not supported: {_REFUSED[name]}")
    level = options.read(
        "kafka.isolation.level", one_of("read_uncommitted", "read_committed"), "read_uncommitted"
    )
    sizes = [
        options.read(name, whole(1), DEFAULT_FETCH_BYTES)
        for name in options.given(("kafka.fetch.max.bytes", "kafka.max.partition.fetch.bytes"))
    ]
    return ClientSettings(
        brokers=read_brokers(options),
        group=options.text(GROUP) or None,
        read_committed=level == "read_committed",
        fetch_bytes=min(sizes, default=DEFAULT_FETCH_BYTES),
    )


def read_brokers(options: Options) -> Brokers:
    protocol = options.text("kafka.security.protocol") or "PLAINTEXT"
    if protocol.upper() != "PLAINTEXT":
        raise BadOption(
            f"the option 'kafka.security.protocol' is {protocol!r}: the client speaks PLAINTEXT"
            " only"
        )
    return Brokers(
        bootstrap=options.required(BOOTSTRAP, addresses),
        client_id=options.text("kafka.client.id") or DEFAULT_CLIENT_ID,
        request_timeout_ms=min(
            options.read("kafka.request.timeout.ms", whole(1), DEFAULT_REQUEST_TIMEOUT_MS),
            _MAX_REQUEST_MS,
        ),
        timeout_ms=options.read("kafka.default.api.timeout.ms", whole(1), DEFAULT_TIMEOUT_MS),
    )
