"""The nodes that a running broker writes are those of Kafka 3.9 with ZooKeeper (`ZkData.scala`)."""

import json
from typing import Any

import pytest

from sawlog.cluster.metadata_image import ConfigKind, ConfigResource
from sawlog.cluster.producer_ids import encode_block
from sawlog.core.ids import NodeId, format_topic_id
from sawlog.core.store import Node, StoreError
from support.cluster.member import TIMEOUT_MS, SingleBroker

OWN_FIELDS = {
    "/brokers/ids/0": {
        "directory_id",
        "flush_policy",
        "clean_stop",
        "process_epoch",
        "shutting_down",
        "registration",
    },
    "/brokers/topics/t/partitions/1/state": {"members"},
}


@pytest.fixture
def broker() -> SingleBroker:
    broker = SingleBroker()
    assert broker.create("t", 2, configs={"retention.ms": "60000"}) is None
    resource = ConfigResource(ConfigKind.BROKER, "0")
    configs = {"log.retention.ms": "60000"}
    alter = broker.resource_configs.alter
    assert broker.settle(lambda done: alter(resource, lambda _: configs, TIMEOUT_MS, done)) is None
    return broker


def content(broker: SingleBroker, path: str) -> bytes:
    results: list[Node | StoreError] = []
    broker.store.get(path, results.append)
    assert broker.schedule.run(lambda: bool(results))
    node = results[0]
    assert isinstance(node, Node), node
    return node.data


def kafka_fields(broker: SingleBroker, path: str) -> dict[str, Any]:
    """Return a node's JSON without Sawlog's own fields, which must be there."""
    fields: dict[str, Any] = json.loads(content(broker, path))
    own = OWN_FIELDS.get(path, set())
    assert own <= fields.keys()
    return {name: value for name, value in fields.items() if name not in own}


def test_a_registration_has_the_fields_of_version_5(broker: SingleBroker) -> None:
    fields = kafka_fields(broker, "/brokers/ids/0")
    assert fields == {
        "version": 5,
        "host": "host0",
        "port": 9092,
        "endpoints": ["PLAINTEXT://host0:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "features": {},
        "timestamp": fields["timestamp"],
    }
    assert int(fields["timestamp"]) > 0
    assert isinstance(fields["timestamp"], str)


def test_the_controller_has_the_fields_of_version_2(broker: SingleBroker) -> None:
    fields = kafka_fields(broker, "/controller")
    assert fields == {
        "version": 2,
        "brokerid": 0,
        "timestamp": str(int(fields["timestamp"])),
        "kraftControllerEpoch": -1,
    }
    assert content(broker, "/controller_epoch") == b"1"


def test_the_cluster_id_has_a_version_that_is_a_string(broker: SingleBroker) -> None:
    assert kafka_fields(broker, "/cluster/id") == {"version": "1", "id": broker.image.cluster_id}


def test_a_topic_has_the_fields_of_version_3(broker: SingleBroker) -> None:
    (topic,) = broker.image.topics.values()
    assert kafka_fields(broker, "/brokers/topics/t") == {
        "version": 3,
        "topic_id": format_topic_id(topic.id),
        "partitions": {"0": [0], "1": [0]},
        "adding_replicas": {},
        "removing_replicas": {},
    }


def test_a_partition_state_has_the_fields_of_version_1(broker: SingleBroker) -> None:
    assert kafka_fields(broker, "/brokers/topics/t/partitions/1/state") == {
        "version": 1,
        "leader": 0,
        "leader_epoch": 0,
        "isr": [0],
        "controller_epoch": 1,
    }


@pytest.mark.parametrize(
    ("path", "configs"),
    [
        ("/config/topics/t", {"retention.ms": "60000"}),
        ("/config/brokers/0", {"log.retention.ms": "60000"}),
    ],
)
def test_configs_have_the_fields_of_version_1(
    broker: SingleBroker, path: str, configs: dict[str, str]
) -> None:
    assert kafka_fields(broker, path) == {"version": 1, "config": configs}


def test_a_block_of_producer_ids_has_strings_for_its_bounds() -> None:
    assert json.loads(encode_block(NodeId(3), 5000)) == {
        "version": 1,
        "broker": 3,
        "block_start": "5000",
        "block_end": "5999",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/ids",
        "/brokers/topics",
        "/config/topics",
        "/config/brokers",
        "/config/changes",
        "/admin/delete_topics",
        "/isr_change_notification",
    ],
)
def test_the_parents_of_nodes_exist_and_are_empty(broker: SingleBroker, path: str) -> None:
    assert content(broker, path) == b""
