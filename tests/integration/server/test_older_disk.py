"""A broker that comes back with an older copy of its data directory, as `docs/cluster.md` says."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.client import AT_EARLIEST, Admin, Consumer, NewTopic, Producer
from sawlog.client.admin.reassignments import ElectionType
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Partition
from sawlog.storage.log_files import META_PROPERTIES, decode_meta_properties
from support.process import wait_until
from support.server.broker_cluster import BrokerCluster

pytestmark = pytest.mark.long
OTHER, RESTORED = 1, 2
"""The replicas of the partition; the third broker has none."""


class RestoredBroker:
    """The broker whose data directory is replaced while it is stopped."""

    def __init__(self, cluster: BrokerCluster, copies: Path) -> None:
        self.server = cluster.servers[RESTORED]
        self._copies = copies

    @property
    def directory_id(self) -> str:
        data = (self.server.data / META_PROPERTIES).read_bytes()
        return decode_meta_properties(data).directory_id

    def save(self, name: str) -> None:
        shutil.copytree(self.server.data, self._copies / name)

    def put_back(self, name: str, *, has_new_id: bool) -> None:
        shutil.rmtree(self.server.data)
        shutil.copytree(self._copies / name, self.server.data)
        if has_new_id:
            (self.server.data / META_PROPERTIES).unlink()


@pytest.fixture
def restored(broker_cluster: BrokerCluster, tmp_path: Path) -> Iterator[RestoredBroker]:
    yield RestoredBroker(broker_cluster, tmp_path)
    for server in broker_cluster.servers.values():
        if not server.process.is_running:
            server.start()
    broker_cluster.wait_until_in_sync()


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, value)
        producer.flush()


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []

    def has_all() -> bool:
        found.extend(record.value for record in consumer.poll(100))
        return len(found) >= count

    with Consumer(bootstrap) as consumer:
        consumer.assign({partition_of(topic, 0): AT_EARLIEST})
        wait_until(has_all)
    return found


def test_an_older_disk_is_not_elected_and_catches_up(
    broker_cluster: BrokerCluster, restored: RestoredBroker, topic: str
) -> None:
    bootstrap, servers = broker_cluster.bootstrap, broker_cluster.servers
    with Admin(bootstrap) as admin:

        def partition() -> Partition:
            (found,), _ = admin.describe_topics([topic])
            (state,) = found.partitions.values()
            return state

        new = NewTopic(topic, assignments={0: (RESTORED, OTHER)})
        assert admin.create_topics([new]) == {}
        broker_cluster.wait_until_in_sync()
        produce(bootstrap, topic, b"one")
        with broker_cluster.stopped(RESTORED):
            restored.save("older")
        produce(bootstrap, topic, b"two")

        # The older copy is that of the last in-sync replica: it must not lead.
        servers[OTHER].stop()
        wait_until(lambda: partition().in_sync == (RESTORED,))
        servers[RESTORED].stop()
        restored.save("newer")
        known = restored.directory_id
        restored.put_back("older", has_new_id=True)
        servers[RESTORED].start()
        wait_until(lambda: RESTORED in {node.id for node in admin.describe_cluster().nodes})
        assert restored.directory_id != known
        tp = partition_of(topic, 0)
        refused = admin.elect_leaders(ElectionType.PREFERRED, [tp])
        assert refused[tp] is not None
        assert partition().leader == -1

        # The disk that was in sync may lead, and brings the other replica back.
        servers[RESTORED].stop()
        restored.put_back("newer", has_new_id=False)
        servers[RESTORED].start()
        wait_until(lambda: partition().leader == RESTORED)
        servers[OTHER].start()
        broker_cluster.wait_until_in_sync()

        # The older copy again, while the other replica is in sync: it catches up.
        servers[RESTORED].stop()
        restored.put_back("older", has_new_id=True)
        servers[RESTORED].start()
        assert partition().leader == OTHER
        broker_cluster.wait_until_in_sync()
        assert partition().leader == OTHER
        assert admin.elect_leaders(ElectionType.PREFERRED, [tp]) == {tp: None}
        wait_until(lambda: partition().leader == RESTORED)
        assert consume(bootstrap, topic, 2) == [b"one", b"two"]
