"""Elections and reassignments of the admin client on one broker; Sawlog and Apache Kafka."""

import pytest

from sawlog.client import Admin, ErrorCode, NewTopic
from sawlog.client.admin.reassignments import ElectionType
from sawlog.client.net.leader_requests import partition_of
from support.kafka.shared_brokers import EITHER_BROKER, SharedBrokers, unique


@pytest.fixture(scope="module", params=EITHER_BROKER)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    return shared_brokers.get(request.param).bootstrap


def test_refused_elections_and_reassignments_change_nothing(bootstrap: str) -> None:
    topic = unique("moved-")
    partition, missing = partition_of(topic, 0), partition_of("no-such-topic", 0)
    with Admin(bootstrap) as admin:
        assert admin.create_topics([NewTopic(topic)]) == {}
        (described,), _ = admin.describe_topics([topic])
        own = described.partitions[partition.partition].replicas

        assert admin.elect_leaders(ElectionType.PREFERRED, [partition]) == {}
        elected = admin.elect_leaders(ElectionType.PREFERRED, [missing])
        error = elected[missing]
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition not in admin.elect_leaders(ElectionType.UNCLEAN)

        assert admin.alter_partition_reassignments({partition: own}) == {}
        refused = admin.alter_partition_reassignments({partition: [*own, 4711]})
        assert refused[partition].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "4711" in refused[partition].message
        cancelled = admin.alter_partition_reassignments({partition: None})
        assert cancelled[partition].code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert admin.list_partition_reassignments() == {}
        assert admin.list_partition_reassignments([partition]) == {}
        (after,), _ = admin.describe_topics([topic])
        assert after.partitions == described.partitions
