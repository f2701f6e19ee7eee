"""Groups that are coordinated through ZooKeeper: members, brokers and ZooKeeper come and go."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from integration.client.test_forks import in_a_child
from sawlog.client import (
    Admin,
    ClientError,
    CommitFailed,
    NewTopic,
    NoBrokerReachable,
    Producer,
    TopicPartition,
    ZooKeeperConsumer,
)
from sawlog.server.zookeeper_address import ZooKeeperAddress
from support.client.zookeeper_members import (
    SESSION_TIMEOUT_MS,
    Deliveries,
    GroupTree,
    Member,
    MemberProcess,
)
from support.process import wait_until
from support.server.broker_cluster import BrokerCluster
from support.server.broker_process import SawlogServer, running_sawlog
from support.server.zookeeper import Proxy, ZooKeeper
from tools.kafka_node import free_port

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

GROUP = "billing"
PARTITIONS = 4
ROUND = 200  # records per partition
LONG_SESSION_MS = 10_000


class Cluster:
    """Brokers on ZooKeeper with one topic, and the number of records in its partitions."""

    def __init__(
        self,
        server: SawlogServer | BrokerCluster,
        address: ZooKeeperAddress,
        topic: str,
        *,
        replicas: int = 1,
    ) -> None:
        self.server = server
        self.address = address
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.counts = [0] * PARTITIONS
        self.tree = GroupTree(address, self.group)
        self.deliveries = Deliveries(self.tree)
        with Admin(server.bootstrap) as admin:
            created = NewTopic(topic, partitions=PARTITIONS, replication_factor=replicas)
            assert admin.create_topics([created]) == {}

    def leader(self, partition: int) -> int:
        with Admin(self.server.bootstrap) as admin:
            (found,), _ = admin.describe_topics([self.topic])
        return int(found.partitions[partition].leader)

    def produce(self, per_partition: int = ROUND) -> None:
        with Producer(self.server.bootstrap) as producer:
            for index in range(PARTITIONS):
                for _ in range(per_partition):
                    producer.send(self.topic, b"%d" % self.counts[index], partition=index)
                    self.counts[index] += 1

    def join(self, address: ZooKeeperAddress | None = None, **settings: object) -> Member:
        return Member(address or self.address, self.group, self.topic, self.deliveries, **settings)

    def consumer(self, **settings: object) -> ZooKeeperConsumer:
        own = {"session_timeout_ms": SESSION_TIMEOUT_MS} | settings
        return ZooKeeperConsumer(str(self.address), self.group, **own)  # type: ignore[arg-type]

    def owners(self) -> list[str | None]:
        return self.tree.owners(self.topic, PARTITIONS)

    def offsets(self) -> list[int | None]:
        return self.tree.offsets(self.topic, PARTITIONS)

    def wait_until_shared_by(self, *ids: str) -> None:
        """Wait until these members, in the order of their ids, own equal ranges."""
        size = PARTITIONS // len(ids)
        wanted = [member for member in sorted(ids) for _ in range(size)]
        wait_until(lambda: self.owners() == wanted, patience_s=60)

    def wait_until_all_delivered(self) -> None:
        wait_until(lambda: self.deliveries.has_all(self.counts), patience_s=60)
        assert self.deliveries.wrong == []


@pytest.fixture(scope="module")
def server(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SawlogServer, ZooKeeperAddress]]:
    address = zookeeper.new_chroot()
    with running_sawlog(tmp_path_factory.mktemp("broker"), settings(address)) as running:
        yield running, address


@pytest.fixture
def cluster(server: tuple[SawlogServer, ZooKeeperAddress], topic: str) -> Iterator[Cluster]:
    built = Cluster(*server, topic)
    yield built
    built.tree.close()


@pytest.fixture
def proxy(zookeeper: ZooKeeper) -> Iterator[Proxy]:
    between = Proxy(zookeeper.address)
    yield between
    between.close()


def settings(address: ZooKeeperAddress) -> dict[str, str]:
    return {"zookeeper.connect": str(address), "zookeeper.session.timeout.ms": "6000"}


def read(consumer: ZooKeeperConsumer, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in consumer.poll(1_000)]
    return offsets


def test_members_that_join_and_leave_share_the_partitions(cluster: Cluster) -> None:
    cluster.produce()
    first = cluster.join()
    cluster.wait_until_shared_by(first.id)
    second = cluster.join()
    cluster.wait_until_shared_by(first.id, second.id)
    cluster.produce()
    others = [cluster.join(), cluster.join()]
    cluster.wait_until_shared_by(first.id, second.id, *(other.id for other in others))
    cluster.produce()
    first.leave()
    others[0].leave()
    cluster.wait_until_shared_by(second.id, others[1].id)
    cluster.produce()
    cluster.wait_until_all_delivered()
    second.leave()
    others[1].leave()
    assert cluster.owners() == [None] * PARTITIONS
    assert cluster.tree.members() == {}
    assert cluster.offsets() == cluster.counts


def test_the_partitions_of_a_killed_member_go_to_the_others(cluster: Cluster) -> None:
    cluster.produce()
    victim = MemberProcess(cluster.address, cluster.group, cluster.topic)
    wait_until(lambda: sum(map(len, victim.delivered().values())) > 0, victim.process)
    survivor = cluster.join()
    cluster.wait_until_shared_by(victim.id, survivor.id)
    cluster.produce()
    victim.process.kill()
    cluster.wait_until_shared_by(survivor.id)
    cluster.produce()

    def delivered(index: int) -> set[int]:
        return victim.delivered()[index] | cluster.deliveries.offsets[index]

    wait_until(
        lambda: [len(delivered(i)) for i in range(PARTITIONS)] == cluster.counts, patience_s=60
    )
    assert cluster.deliveries.wrong == []
    survivor.leave()


def test_a_member_stopped_beyond_its_session_delivers_nothing_of_its_former_partitions(
    cluster: Cluster,
) -> None:
    sleeper = MemberProcess(cluster.address, cluster.group, cluster.topic)
    cluster.wait_until_shared_by(sleeper.id)
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    other = cluster.join()
    cluster.wait_until_shared_by(other.id)
    cluster.produce()
    cluster.wait_until_all_delivered()
    os.kill(sleeper.process.pid, signal.SIGCONT)
    cluster.wait_until_shared_by(sleeper.id, other.id)
    assert sum(map(len, sleeper.delivered().values())) == 0
    sleeper.process.kill()
    other.leave()


def test_a_suspended_member_delivers_nothing_and_goes_on_with_its_partitions(
    cluster: Cluster, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    where = cluster.address._replace(servers=(proxy.address,))
    consumer = ZooKeeperConsumer(str(where), cluster.group, session_timeout_ms=LONG_SESSION_MS)
    with consumer:
        consumer.subscribe([cluster.topic])
        cluster.produce(1)
        read(consumer, PARTITIONS)
        created = cluster.tree.owner_created(cluster.topic, 0)
        proxy.cut()
        while "the connection to ZooKeeper is lost" not in caplog.text:
            consumer.poll(10)
        cluster.produce(1)
        assert [consumer.poll(50) for _ in range(10)] == [[]] * 10
        with pytest.raises(ClientError):
            consumer.commit(timeout_ms=100)
        proxy.restore()
        assert read(consumer, PARTITIONS) == [1] * PARTITIONS
        assert cluster.tree.owner_created(cluster.topic, 0) == created
        consumer.commit()
        assert cluster.offsets() == [2] * PARTITIONS
        # The watches were set again.
        other = cluster.join()
        while len(consumer.assignment) == PARTITIONS:
            consumer.poll(50)
        cluster.wait_until_shared_by(consumer.consumer_id, other.id)
        other.leave()


def test_a_member_whose_session_expired_loses_its_partitions_and_joins_again(
    cluster: Cluster, proxy: Proxy
) -> None:
    cut_off = cluster.join(cluster.address._replace(servers=(proxy.address,)))
    other = cluster.join()
    cluster.wait_until_shared_by(cut_off.id, other.id)
    wait_until(lambda: len(cut_off.owned) == PARTITIONS // 2)  # it knows that it owns them
    proxy.cut()
    cluster.wait_until_shared_by(other.id)
    before = cut_off.delivered
    cluster.produce()
    cluster.wait_until_all_delivered()
    assert cut_off.delivered == before
    proxy.restore()
    cluster.wait_until_shared_by(cut_off.id, other.id)
    assert len(cut_off.lost_partitions) == PARTITIONS // 2
    cluster.produce()
    cluster.wait_until_all_delivered()
    assert cut_off.delivered > before
    cut_off.leave()
    other.leave()


def test_a_deposed_owner_does_not_overwrite_the_offset_of_the_next_one(cluster: Cluster) -> None:
    """The owner node is deleted by hand: the check of its version alone would let both commit."""
    cluster.produce(10)
    with cluster.consumer(consumer_id="a", auto_commit_ms=None) as first:
        first.subscribe([cluster.topic])
        read(first, 10 * PARTITIONS)
        first.commit(dict.fromkeys(first.assignment, 5))
        with cluster.consumer(consumer_id="0", auto_commit_ms=None) as second:
            second.subscribe([cluster.topic])
            for index in (0, 1):  # those that are due to "0" from now on
                cluster.tree.delete_owner(cluster.topic, index)
            while len(second.assignment) < 2:
                second.poll(50)
            taken = sorted(second.assignment)
            with pytest.raises(CommitFailed, match="were not committed"):
                first.commit(dict.fromkeys(taken, 10))
            assert cluster.offsets()[:2] == [5, 5], "the claim fences the former owner"
            second.commit(dict.fromkeys(taken, 8))
            with pytest.raises(CommitFailed, match="were not committed"):
                first.commit()
            assert cluster.offsets()[:2] == [8, 8]


def test_a_broker_that_was_killed_is_found_at_its_new_address(
    tmp_path: Path, zookeeper: ZooKeeper, topic: str
) -> None:
    address = zookeeper.new_chroot()
    short_session = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    with running_sawlog(tmp_path, settings(address) | short_session) as server:
        cluster = Cluster(server, address, topic)
        cluster.produce()
        member = cluster.join()
        cluster.wait_until_all_delivered()
        server.kill()
        server.port = free_port()  # found in ZooKeeper only
        server.start()
        cluster.produce()
        cluster.wait_until_all_delivered()
        member.leave()
        assert cluster.offsets() == cluster.counts
        cluster.tree.close()


def test_members_and_the_leaders_of_their_partitions_are_killed_under_load(
    broker_cluster: BrokerCluster, topic: str
) -> None:
    cluster = Cluster(broker_cluster, broker_cluster.zookeeper, topic, replicas=3)
    cluster.produce()
    member = cluster.join()
    victims = []
    for _ in range(2):
        victim = MemberProcess(cluster.address, cluster.group, topic)
        cluster.wait_until_shared_by(member.id, victim.id)
        cluster.produce()
        leader = broker_cluster.servers[cluster.leader(0)]
        leader.kill()
        victim.process.kill()
        cluster.produce()  # waits for the next leaders
        leader.start()
        broker_cluster.wait_until_in_sync()
        cluster.wait_until_shared_by(member.id)
        victims.append(victim)
    cluster.produce()

    def delivered(index: int) -> int:
        sets = [victim.delivered()[index] for victim in victims]
        return len(cluster.deliveries.offsets[index].union(*sets))

    wait_until(lambda: list(map(delivered, range(PARTITIONS))) == cluster.counts, patience_s=60)
    assert cluster.deliveries.wrong == []
    member.leave()
    assert cluster.offsets() == cluster.counts
    cluster.tree.close()


def test_offsets_survive_a_restart_of_everything(tmp_path: Path, topic: str) -> None:
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    address = zookeeper.new_chroot()
    with running_sawlog(tmp_path, settings(address)) as server:
        cluster = Cluster(server, address, topic)
        cluster.produce(5)
        with cluster.consumer() as consumer:
            consumer.subscribe([topic])
            read(consumer, 5 * PARTITIONS)
        cluster.tree.close()
        server.stop()
        zookeeper.kill()
        zookeeper.start()
        server.start()
        with Producer(server.bootstrap) as producer:
            producer.send(topic, b"new", partition=2).result()
        with cluster.consumer() as consumer:
            consumer.subscribe([topic])
            assert read(consumer, 1) == [5]
    zookeeper.kill()


def test_a_group_that_starts_at_the_end_reads_everything_from_there_on(cluster: Cluster) -> None:
    cluster.produce(3)
    with cluster.consumer(offset_reset="largest") as consumer:
        consumer.subscribe([cluster.topic])
        while cluster.offsets() != [3] * PARTITIONS:  # committed although nothing was read
            assert consumer.poll(50) == []
    cluster.produce(1)
    with cluster.consumer(offset_reset="largest") as consumer:
        consumer.subscribe([cluster.topic])
        assert read(consumer, PARTITIONS) == [3] * PARTITIONS
    with pytest.raises(ValueError, match="smallest, earliest, largest, latest"):
        cluster.consumer(offset_reset="middle")


def test_message_streams_take_a_share_each_and_stop_while_suspended(
    cluster: Cluster, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.produce(ROUND)
    where = cluster.address._replace(servers=(proxy.address,))
    consumer = ZooKeeperConsumer(str(where), cluster.group, session_timeout_ms=LONG_SESSION_MS)
    streams = consumer.message_streams(cluster.topic, 2)
    first = next(streams[0])
    (registration,) = cluster.tree.members().values()
    fields = json.loads(registration)
    assert fields["subscription"] == {cluster.topic: 2}
    assert fields["pattern"] == "static"
    proxy.cut()
    wait_until(lambda: not consumer._zookeeper.is_connected)
    got: list[int] = []
    reading = threading.Thread(target=lambda: got.extend(r.offset for r in streams[0]))
    reading.start()
    # A reader that polls has not taken a record from its queue.
    wait_until(lambda: "the connection to ZooKeeper is lost" in caplog.text)
    assert got == [], "records in the stream's queue were handed out"
    proxy.restore()
    wait_until(lambda: len(got) > first.offset)
    consumer.close()
    reading.join()


def test_new_topics_of_a_pattern_and_new_partitions_are_read(cluster: Cluster) -> None:
    with cluster.consumer() as consumer, Admin(cluster.server.bootstrap) as admin:
        consumer.subscribe(pattern=f"{cluster.topic}.*")
        while len(consumer.assignment) < PARTITIONS:
            consumer.poll(50)
        late = TopicPartition(f"{cluster.topic}-late", 0)  # type: ignore[arg-type]
        assert admin.create_topics([NewTopic(late.topic)]) == {}
        assert admin.create_partitions({cluster.topic: PARTITIONS + 1}) == {}
        while len(consumer.assignment) < PARTITIONS + 2:
            consumer.poll(50)
        assert late in consumer.assignment
        consumer.subscribe([late.topic])
        while consumer.assignment != {late}:
            consumer.poll(50)
        consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        assert cluster.tree.members() == {}


def test_a_second_member_with_the_same_id_waits_for_the_first_to_leave(cluster: Cluster) -> None:
    cluster.produce(1)
    with cluster.consumer(consumer_id="same") as second:
        with cluster.consumer(consumer_id="same", auto_commit_ms=None) as first:
            first.subscribe([cluster.topic])
            read(first, PARTITIONS)
            second.subscribe([cluster.topic])
            assert second.poll(200) == []
            assert second.assignment == frozenset()
        assert len(read(second, PARTITIONS)) == PARTITIONS


def test_a_forked_child_cannot_use_or_end_its_parents_consumer(cluster: Cluster) -> None:
    cluster.produce(1)
    with cluster.consumer() as consumer:
        consumer.subscribe([cluster.topic])
        read(consumer, PARTITIONS)
        assert "ValueError: the consumer belongs to process" in in_a_child(consumer.poll)
        assert in_a_child(consumer.close) == "None"
        cluster.produce(1)
        assert read(consumer, PARTITIONS) == [1] * PARTITIONS


def test_nodes_are_closed_to_clients_without_the_credentials(
    tmp_path: Path, zookeeper: ZooKeeper, topic: str
) -> None:
    address = zookeeper.new_chroot()
    key = {"zookeeper.digest.credentials": "sawlog:secret"}
    with running_sawlog(tmp_path, settings(address) | key) as server:
        with Admin(server.bootstrap) as admin:
            assert admin.create_topics([NewTopic(topic)]) == {}
        with ZooKeeperConsumer(str(address), GROUP, credentials="sawlog:secret") as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment:
                consumer.poll(50)
            stranger = KazooClient(str(zookeeper.address))
            stranger.start()
            for path in ("ids", f"owners/{topic}", "offsets"):
                with pytest.raises(NoAuthError):
                    stranger.get_children(f"{address.chroot}/consumers/{GROUP}/{path}")
            stranger.stop()
            stranger.close()
        with pytest.raises(ClientError, match="denies access; check the credentials") as error:
            ZooKeeperConsumer(str(address), GROUP, credentials="sawlog:wrong")
        assert "wrong" not in str(error.value)


def test_an_unreachable_zookeeper_and_a_chroot_without_brokers_are_reported(
    zookeeper: ZooKeeper,
) -> None:
    where = f"127.0.0.1:{free_port()}"
    with pytest.raises(ClientError, match=f"no ZooKeeper server of {where} accepted a session"):
        ZooKeeperConsumer(where, GROUP, connection_timeout_ms=300)
    with pytest.raises(NoBrokerReachable, match=r"no broker is registered .* is the chroot"):
        ZooKeeperConsumer(f"{zookeeper.address}/no/such", GROUP, connection_timeout_ms=300)
    with pytest.raises(ValueError, match="cannot be the name of a node"):
        ZooKeeperConsumer(where, "a/b")
