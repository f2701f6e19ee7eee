"""`sawlog move-to-zookeeper` with a real broker and a real ZooKeeper: nothing is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.client import Admin, NewTopic, Resource, ResourceType, TopicPartition
from sawlog.core.ids import PartitionIndex, TopicName
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.server.zookeeper_address import ZooKeeperAddress
from support.client.load import IdempotentLoad
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer, running_sawlog
from support.server.zookeeper import ZooKeeper
from tools.kafka_node import free_port

pytestmark = pytest.mark.long
RECORDS = 500
LOGS = Resource(ResourceType.TOPIC, "logs")


def move(
    data: Path, address: ZooKeeperAddress | str, *options: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sawlog", "move-to-zookeeper", "--data", str(data)]
    return subprocess.run(
        [*command, "--zookeeper", str(address), *options],
        capture_output=True,
        text=True,
        timeout=60,
    )


def new_producer_id(server: SawlogServer) -> int:
    with Wire(server.host, server.port) as wire:
        response = wire.ask(InitProducerIdRequest(transactional_id=None), 4)
    assert response is not None
    assert response.error_code == 0
    return int(response.producer_id)


def test_a_moved_broker_has_its_records_offsets_settings_and_ids(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    address = zookeeper.new_chroot()
    with running_sawlog(tmp_path) as server, Admin(server.bootstrap) as admin:
        new = NewTopic("logs", partitions=2, configs={"retention.ms": "123456789"})
        assert admin.create_topics([new]) == {}
        load = IdempotentLoad(server.bootstrap, "logs", 2)
        load.run_until(RECORDS)
        load.finish()
        offsets = {TopicPartition(TopicName("logs"), PartitionIndex(i)): 7 + i for i in range(2)}
        assert admin.commit_offsets("readers", offsets) == {}
        committed = admin.committed_offsets(["readers"])
        assert {tp: found.offset for tp, found in committed[0]["readers"].items()} == offsets
        (topic,), _ = admin.describe_topics(["logs"])
        cluster_id = admin.describe_cluster().cluster_id
        last_id = new_producer_id(server)

        refused = move(server.data, address)
        assert refused.returncode == 1
        assert "another broker is running on this data directory" in refused.stderr

        server.stop()
        done = move(server.data, address)
        assert done.returncode == 0, done.stderr
        assert f"start the broker with --zookeeper {address}" in done.stdout
        server.launch()
        assert server.process.wait() == 1, "the embedded store is not used by mistake"
        assert f"moved to ZooKeeper at {address}" in server.process.output

        server.settings["zookeeper.connect"] = str(address)
        server.start()
        assert admin.describe_cluster().cluster_id == cluster_id
        (again,), _ = admin.describe_topics(["logs"])
        assert again.id == topic.id
        assert admin.committed_offsets(["readers"]) == committed
        (entry,) = admin.describe_configs([LOGS], names=["retention.ms"])[LOGS]
        assert entry.value == "123456789"
        load.run_until(2 * RECORDS)  # its producer goes on in sequence
        load.finish()
        assert new_producer_id(server) > last_id
        assert "stray" not in server.process.output


def test_a_move_to_an_unreachable_zookeeper_changes_nothing(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server:
        pass
    before = sorted(path.name for path in server.data.iterdir())
    where = f"127.0.0.1:{free_port()}"
    done = move(server.data, where, "--connect-timeout", "0.5")
    assert done.returncode == 3
    assert f"no ZooKeeper server of {where} accepted a session within 0.5 s" in done.stderr
    assert "nothing was moved" in done.stderr
    assert sorted(path.name for path in server.data.iterdir()) == before
    with running_sawlog(tmp_path):
        pass
