"""Record sizes estimated from batch headers, on both brokers."""

import pytest

from sawlog.client.admin.record_sizes import PROBE_BYTES, bytes_per_offset, record_bytes
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from support.protocol.batches import batch


def place(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def test_every_partition_is_measured_even_if_its_first_batch_exceeds_the_limit(
    quick_groups: str, three_partitions: str
) -> None:
    sizes = (10, 2 * PROBE_BYTES, 3 * PROBE_BYTES)
    with Producer(quick_groups) as producer:
        for index, size in enumerate(sizes):
            producer.send(three_partitions, b"v" * size, partition=index).result()
    starts = {place(three_partitions, index): 0 for index in range(3)}
    with Cluster(quick_groups) as cluster:
        weights = record_bytes(cluster, starts)
        found = {tp: weights[tp] for tp in starts if tp in weights}
        assert found.keys() == starts.keys()
        for size, weight in zip(sizes, found.values(), strict=True):
            assert size < weight < size + 100
        assert record_bytes(cluster, dict.fromkeys(starts, 1)) == {}, "nothing lies there"


def test_an_offset_within_a_batch_measures_the_whole_batch() -> None:
    ten, five = batch(0, *[b"x" * 100] * 10), batch(10, *[b"x" * 100] * 5)
    assert bytes_per_offset(ten) == len(ten) / 10
    assert bytes_per_offset(ten + five) == len(ten + five) / 15
    assert bytes_per_offset(ten + five[:-1]) == len(ten) / 10


@pytest.mark.parametrize("records", [b"", b"x" * 100])
def test_records_without_a_whole_batch_have_no_size(records: bytes) -> None:
    assert bytes_per_offset(records) is None
