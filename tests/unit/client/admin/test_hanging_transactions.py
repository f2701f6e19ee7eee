"""Which open transactions hang: those that no coordinator will end."""

from sawlog.client.admin.transactions import (
    ActiveProducer,
    HangingTransaction,
    TransactionDescription,
    hanging_among,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NodeId, TopicPartition


def candidate(producer_id: int, partition: TopicPartition) -> HangingTransaction:
    return HangingTransaction(partition, ActiveProducer(producer_id, 0, 0, 0, -1, 5))


def description(name: str, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(name, NodeId(1), "Ongoing", 7, 0, 60_000, 0, partitions)


A, B = partition_of("logs", 0), partition_of("logs", 1)


def test_a_transaction_hangs_unless_its_coordinator_lists_the_partition() -> None:
    known, moved, expired, nameless = (candidate(number, A) for number in (7, 8, 9, 10))
    found = hanging_among(
        [known, moved, expired, nameless],
        {7: "known", 8: "moved", 9: "expired"},
        {"known": description("known", A), "moved": description("moved", B)},
    )
    assert found == [moved, expired, nameless]
