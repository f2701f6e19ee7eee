"""The client with which commands and drivers of a pipeline send requests to its brokers."""

from sawlog.client.net.cluster import Cluster

TIMEOUT_MS = 5_000


def pipeline_cluster(brokers: str, timeout_ms: int = TIMEOUT_MS) -> Cluster:
    """A client that gives up after `timeout_ms`, for one thread."""
    return Cluster(
        brokers,
        client_id="sawlog-pipeline",
        timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
    )
