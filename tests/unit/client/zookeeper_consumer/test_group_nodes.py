"""The nodes of a group: those that Kafka 0.8's consumer wrote and read."""

import json

import pytest

from sawlog.client.net.addresses import Address
from sawlog.client.zookeeper_consumer.connect_string import check_connect_string
from sawlog.client.zookeeper_consumer.group_nodes import (
    GroupPaths,
    MalformedNode,
    PatternKind,
    Registration,
    check_name,
    decode_broker,
    decode_offset,
    decode_partitions,
    decode_registration,
    encode_offset,
    encode_registration,
)
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition

PARTITION = TopicPartition(TopicName("logs"), PartitionIndex(3))
PATH = "/some/node"


def test_paths_are_those_of_kafka() -> None:
    paths = GroupPaths("billing")
    assert paths.consumer("c1") == "/consumers/billing/ids/c1"
    assert paths.owner(PARTITION) == "/consumers/billing/owners/logs/3"
    assert paths.offset(PARTITION) == "/consumers/billing/offsets/logs/3"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00b", "a\nb"])
def test_a_name_that_cannot_be_a_nodes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a node"):
        check_name("group", name)
    with pytest.raises(ValueError, match="the group"):
        GroupPaths(name)


def test_a_registration_is_kafkas_json() -> None:
    data = encode_registration(Registration({"logs": 2}), 1_400_000_000_123)
    assert json.loads(data) == {
        "version": 1,
        "subscription": {"logs": 2},
        "pattern": "static",
        "timestamp": "1400000000123",
    }
    assert decode_registration(PATH, data) == Registration({"logs": 2})


def test_registrations_by_pattern_are_read() -> None:
    white = Registration({"log.*": 1}, PatternKind.WHITE_LIST)
    assert decode_registration(PATH, encode_registration(white, 0)) == white
    black = b'{"version":1,"subscription":{"tmp.*":3},"pattern":"black_list","timestamp":"7"}'
    assert decode_registration(PATH, black) == Registration({"tmp.*": 3}, PatternKind.BLACK_LIST)


def test_a_registration_of_kafka_0_8_0_without_a_pattern_is_static() -> None:
    data = b'{"version":1,"subscription":{"logs":1}}'
    assert decode_registration(PATH, data) == Registration({"logs": 1})


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"subscription":[]}', b'{"subscription":{"a":"x"}}']
)
def test_a_malformed_registration_names_its_node(data: bytes) -> None:
    with pytest.raises(MalformedNode, match=PATH):
        decode_registration(PATH, data)


def test_an_offset_is_decimal_text() -> None:
    assert encode_offset(1_234) == b"1234"
    assert decode_offset(PATH, b"1234") == 1_234
    for data in (b"", b"-1", b"1.5", b"x", b"9223372036854775808"):
        with pytest.raises(MalformedNode, match="an offset as decimal text"):
            decode_offset(PATH, data)


def test_the_partitions_of_a_topic_are_sorted_as_numbers() -> None:
    data = json.dumps({"version": 3, "partitions": {str(n): [1] for n in (10, 9, 0)}}).encode()
    assert decode_partitions(PATH, data) == (0, 9, 10)
    with pytest.raises(MalformedNode, match="assignment"):
        decode_partitions(PATH, b'{"partitions":{"x":[1]}}')


def test_the_address_of_a_broker_is_its_plaintext_endpoint() -> None:
    node = {
        "endpoints": ["CLIENTS://10.0.0.1:9093", "INSIDE://[::1]:9094"],
        "listener_security_protocol_map": {"CLIENTS": "SSL", "INSIDE": "PLAINTEXT"},
        "host": None,
        "port": -1,
    }
    assert decode_broker(PATH, json.dumps(node).encode()) == Address("::1", 9_094)
    node["listener_security_protocol_map"] = {"CLIENTS": "SSL", "INSIDE": "SSL"}
    assert decode_broker(PATH, json.dumps(node).encode()) is None


def test_the_address_of_a_broker_of_kafka_0_8_is_its_host_and_port() -> None:
    data = b'{"jmx_port":-1,"timestamp":"1","host":"kafka1","version":1,"port":9092}'
    assert decode_broker(PATH, data) == Address("kafka1", 9_092)
    with pytest.raises(MalformedNode, match="a broker's registration"):
        decode_broker(PATH, b"[]")


def test_a_connect_string_has_hosts_and_a_chroot() -> None:
    assert check_connect_string("zk1, zk2:2182") == "zk1:2181,zk2:2182"
    assert check_connect_string("zk1:2181/") == "zk1:2181"
    assert check_connect_string("[::1]/a/b") == "[::1]:2181/a/b"
    for wrong in ("", "/chroot", "zk1:x", "zk1/a//b", "zk1/a/"):
        with pytest.raises(ValueError, match=r"names no server|no port|name of a node"):
            check_connect_string(wrong)
