"""The tools of Apache Kafka 4.3.0 that need several brokers, on three brokers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.client import Admin, NewTopic, Producer
from sawlog.client.admin.configs import ConfigEntry, Resource
from sawlog.core.config_api import ResourceType
from sawlog.core.config_throttle import THROTTLED_REPLICAS
from support.kafka.kafka_broker import run_tool
from support.kafka.shared_brokers import unique
from support.process import ServerProcess
from support.programs import require_java
from support.server.broker_cluster import BrokerCluster
from tools.kafka_node import SMALL_JVM, java_command

pytestmark = pytest.mark.long

TOPICS = "org.apache.kafka.tools.TopicCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
REPLICA_VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"


@pytest.fixture
def admin(broker_cluster: BrokerCluster) -> Iterator[Admin]:
    with Admin(broker_cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def placed(admin: Admin) -> Iterator[str]:
    """A topic with the replicas 3 1, 1 2 and 2 3."""
    name = unique("tool-")
    assignments = {0: [3, 1], 1: [1, 2], 2: [2, 3]}
    assert admin.create_topics([NewTopic(name, assignments=assignments)]) == {}
    yield name
    admin.delete_topics([name])


def run(cluster: BrokerCluster, tool: str, *arguments: str) -> str:
    done = run_tool(tool, *arguments, "--bootstrap-server", cluster.bootstrap)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_leaders_of_a_stopped_broker_are_described_and_elected_again(
    broker_cluster: BrokerCluster, placed: str
) -> None:
    with broker_cluster.stopped(3):
        missing = run(
            broker_cluster,
            TOPICS,
            "--describe",
            "--topic",
            placed,
            "--under-replicated-partitions",
        )
        assert re.findall(r"Partition: (\d)\s+Leader: (\d)", missing) == [("0", "1"), ("2", "2")]
    partition = ("--topic", placed, "--partition", "0")
    elected = run(broker_cluster, LEADER_ELECTION, "--election-type", "PREFERRED", *partition)
    assert f"Successfully completed leader election (PREFERRED) for partitions {placed}-0" in (
        elected
    )
    described = run(broker_cluster, TOPICS, "--describe", "--topic", placed)
    assert re.findall(r"Leader: (\d)", described) == ["3", "1", "2"]


def test_partitions_are_reassigned_and_verified(
    broker_cluster: BrokerCluster, placed: str, admin: Admin, tmp_path: Path
) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": placed}]}))
    generated = run(
        broker_cluster,
        REASSIGN,
        "--generate",
        "--topics-to-move-json-file",
        str(topics),
        "--broker-list",
        "1,2",
    )
    plan = tmp_path / "plan.json"
    plan.write_text(generated.split("Proposed partition reassignment configuration")[1].strip())
    with Producer(broker_cluster.bootstrap) as producer:
        producer.send(placed, b"record", partition=0)
    execute = ("--reassignment-json-file", str(plan), "--execute", "--throttle", "100000000")
    assert "Successfully started partition reassignments" in run(broker_cluster, REASSIGN, *execute)
    verify = ("--reassignment-json-file", str(plan), "--verify")
    for _ in range(20):
        verified = run(broker_cluster, REASSIGN, *verify)
        if "still in progress" not in verified:
            break
    assert verified.count("is completed.") == 3
    assert "Clearing topic-level throttles" in verified
    (topic,), _ = admin.describe_topics([placed])
    assert all(set(each.replicas) == {1, 2} for each in topic.partitions.values())


def test_a_reassignment_is_throttled_until_the_tool_sets_another_rate(
    broker_cluster: BrokerCluster, placed: str, admin: Admin, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    move = {"topic": placed, "partition": 0, "replicas": [1, 2]}  # from 3, 1
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    with Producer(broker_cluster.bootstrap) as producer:
        for _ in range(40):
            producer.send(placed, b"x" * 100_000, partition=0)
    tool = ("--reassignment-json-file", str(plan))
    run(broker_cluster, REASSIGN, *tool, "--execute", "--throttle", "1000")
    assert "still in progress" in run(broker_cluster, REASSIGN, *tool, "--verify"), (
        "the quota lets 1 MB pass in 11 s"
    )
    throttled = [entry for entry in configs_of(admin, placed) if entry.value]
    assert [entry.value for entry in throttled] == ["0:2", "0:1,0:3"]
    fast = ("--execute", "--additional", "--throttle", "1000000000")
    run(broker_cluster, REASSIGN, *tool, *fast)
    for _ in range(20):
        verified = run(broker_cluster, REASSIGN, *tool, "--verify")
        if "still in progress" not in verified:
            break
    assert "is completed." in verified
    assert [entry.value for entry in configs_of(admin, placed)] == ["", ""]


def configs_of(admin: Admin, topic: str) -> list[ConfigEntry]:
    resource = Resource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource], names=THROTTLED_REPLICAS)[resource]


def test_replicas_are_verified_to_be_equal(broker_cluster: BrokerCluster, placed: str) -> None:
    with Producer(broker_cluster.bootstrap) as producer:
        for number in range(1_500):
            producer.send(placed, b"record", partition=number % 3)
    require_java()
    arguments = ("--broker-list", broker_cluster.bootstrap, "--topics-include", placed)
    verification = ServerProcess(
        java_command(
            REPLICA_VERIFICATION,
            *arguments,
            *("--time", "-2", "--report-interval-ms", "200", "--max-wait-ms", "100"),
            options=("-Xmx256m", *SMALL_JVM, "-Xshare:auto"),
            log_level="error",
        )
    )
    try:
        verification.wait_for_line(r"max lag is 0 for partition \S+ at offset 500 among 3")
        assert "match" not in verification.output, verification.output
    finally:
        verification.kill()


def test_the_cluster_and_the_versions_of_each_broker_are_listed(
    broker_cluster: BrokerCluster, admin: Admin
) -> None:
    cluster_id = admin.describe_cluster().cluster_id
    assert f"Cluster ID: {cluster_id}" in run(broker_cluster, CLUSTER, "cluster-id")
    endpoints = run(broker_cluster, CLUSTER, "list-endpoints").splitlines()[1:]
    found = [(line.split()[0], line.split()[3]) for line in endpoints]
    assert found == [("1", "a"), ("2", "b"), ("3", "c")]
    versions = run(broker_cluster, API_VERSIONS)
    assert sorted(re.findall(r"\(id: (\d) rack: (\w)", versions)) == found
    assert versions.count("AlterPartitionReassignments(45): 0 to 1 [usable: 1]") == 3
    assert "ERROR" not in versions
