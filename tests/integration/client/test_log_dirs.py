"""Log directories as brokers describe them that are in trouble, or old."""

import socket
from collections.abc import Iterator

import pytest

from sawlog.client import Admin, ErrorCode, KafkaError
from sawlog.client.admin.log_dirs import LogDir, LogDirReplica, has_offline_log_dir
from sawlog.client.net.addresses import Address
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from support.client.scripted_broker import NODE_ID, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.offers[ApiKey.DESCRIBE_LOG_DIRS] = (1, 5)
        yield broker


def describe(broker: ScriptedBroker, *results: DescribeLogDirsResult) -> list[LogDir]:
    broker.reply(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsResponse(results=[*results]))
    with Admin(f"{broker.host}:{broker.port}") as admin:
        return admin.describe_log_dirs()[NODE_ID]


def test_an_offline_directory_has_its_error_and_does_not_hide_the_others(
    broker: ScriptedBroker,
) -> None:
    offline = DescribeLogDirsResult(int(ErrorCode.KAFKA_STORAGE_ERROR), "/one")
    online = DescribeLogDirsResult(0, "/two", total_bytes=100, usable_bytes=40)
    first, second = describe(broker, offline, online)
    assert first.path == "/one"
    assert first.error is not None
    assert first.error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (first.total_bytes, first.usable_bytes, first.replicas) == (None, None, [])
    assert second == LogDir("/two", None, 100, 40, [])


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_broker_is_asked_whether_a_directory_is_offline(
    broker: ScriptedBroker, code: ErrorCode
) -> None:
    online = DescribeLogDirsResult(0, "/one")
    response = DescribeLogDirsResponse(results=[online, DescribeLogDirsResult(int(code), "/two")])
    broker.reply(ApiKey.DESCRIBE_LOG_DIRS, response)
    is_offline = has_offline_log_dir(Address(broker.host, broker.port), 10_000)
    assert is_offline == (code is not ErrorCode.NONE)


def test_a_broker_that_does_not_answer_reports_no_offline_directory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not has_offline_log_dir(Address(*silent.getsockname()), 10)


def test_sizes_that_an_old_broker_does_not_send_are_unknown(broker: ScriptedBroker) -> None:
    broker.offers[ApiKey.DESCRIBE_LOG_DIRS] = (1, 3)
    partitions = [DescribeLogDirsPartition(3, 10, 0), DescribeLogDirsPartition(1, 20, -1)]
    topics = [DescribeLogDirsTopic("b", partitions), DescribeLogDirsTopic("a", partitions[:1])]
    (log_dir,) = describe(broker, DescribeLogDirsResult(0, "/data", topics, 1, 1))
    assert (log_dir.total_bytes, log_dir.usable_bytes) == (None, None)
    assert log_dir.replicas == [
        LogDirReplica("a", 3, 10, 0),
        LogDirReplica("b", 1, 20, None),
        LogDirReplica("b", 3, 10, 0),
    ]


def test_a_refusal_is_raised(broker: ScriptedBroker) -> None:
    refusal = DescribeLogDirsResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    broker.reply(ApiKey.DESCRIBE_LOG_DIRS, refusal)
    with Admin(f"{broker.host}:{broker.port}") as admin, pytest.raises(KafkaError) as raised:
        admin.describe_log_dirs()
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert str(NODE_ID) in str(raised.value)
