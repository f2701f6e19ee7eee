"""The average size of records on the wire, estimated from the batches at given offsets.

Only batch headers are read: nothing is decompressed.
"""

from collections.abc import Mapping

from sawlog.client.consumer.fetcher import Fetcher, FetchLimits
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Buffer, FileSlice
from sawlog.protocol.messages.fetch_response import PartitionData
from sawlog.protocol.record_batch import batches_in

PROBE_BYTES = 64 * 1_024  # of each partition
_MAX_WAIT_MS = 1_000


def record_bytes(
    cluster: Cluster, starts: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, float]:
    """Return the average bytes per offset from each start on.

    Partitions without records there, or with a retriable error, are left out; a fatal error is
    raised.
    """
    limits = FetchLimits(0, 0, PROBE_BYTES * max(1, len(starts)), PROBE_BYTES)
    fetcher = Fetcher(cluster, limits, read_committed=read_committed)
    found: dict[TopicPartition, float] = {}
    while missing := {tp: start for tp, start in starts.items() if tp not in found}:
        known = len(found)
        fetcher.send(missing)
        while fetcher.has_in_flight:
            fetcher.wait(_MAX_WAIT_MS)
            for partition, _, data in fetcher.take_responses():
                size = _bytes_per_offset(data)
                if size is not None:
                    found[partition] = size
        fetcher.raise_failure()
        # A batch above the limit is returned whole only for the first partition of a fetch.
        if len(found) == known:
            break
    return found


def _bytes_per_offset(data: PartitionData) -> float | None:
    if data.error_code or not data.records or isinstance(data.records, FileSlice):
        return None
    return bytes_per_offset(data.records)


def bytes_per_offset(records: Buffer) -> float | None:
    """Return the average bytes per offset; None without a whole batch."""
    size, first, last = 0, None, 0
    try:
        for _, header in batches_in(records):
            first = header.base_offset if first is None else first
            size, last = size + header.size, header.next_offset
    except KafkaError:
        pass  # the consumer of the records reports it
    return None if first is None or last <= first else size / (last - first)
