"""`sawlog disk` without a broker: sums, shares, several brokers and directories."""

import json

import pytest

from sawlog.cli.commands import run
from sawlog.cli.disk_usage import DiskUsage, by_topic, measure, share
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.log_dirs import LogDir, LogDirReplica
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId

OFFLINE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory '/c' is offline")


def log_dir(path: str, *replicas: LogDirReplica, error: KafkaError | None = None) -> LogDir:
    space = (None, None) if error else (1_000, 250)
    return LogDir(path, error, *space, list(replicas))


CLUSTER = {
    NodeId(2): [
        log_dir("/b", LogDirReplica("orders", 0, 90, 7), LogDirReplica("orders", 1, 10, 0)),
        log_dir("/c", error=OFFLINE),
    ],
    NodeId(1): [
        log_dir(
            "/a",
            LogDirReplica("orders", 0, 100, 0),
            LogDirReplica("refunds", 0, 200, 0),
            LogDirReplica("orders", 1, 0, 3, is_future=True),
        )
    ],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "describe_log_dirs", lambda _: CLUSTER)


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_replicas_are_summed_by_topic() -> None:
    usage = measure(CLUSTER)
    assert usage.log_bytes == 400
    assert [
        (each.topic, each.partitions, each.replicas, each.size_bytes)
        for each in by_topic(usage.replicas)
    ] == [
        ("orders", 2, 4, 200),
        ("refunds", 1, 1, 200),
    ]
    assert [each.size_bytes for each in usage.replicas] == [200, 100, 90, 10, 0]


def test_space_of_the_cluster_is_unknown_if_a_directory_is_offline() -> None:
    assert measure(CLUSTER).total_bytes is None
    assert measure({NodeId(1): CLUSTER[NodeId(1)]}).total_bytes == 1_000
    assert DiskUsage([], []).total_bytes is None


def test_share_of_nothing_is_unknown() -> None:
    assert share(0, 0) is None
    assert share(5, None) is None
    assert share(1, 4) == 0.25


@pytest.mark.usefixtures("cluster")
def test_offline_directory_is_reported_after_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["disk"]) == 1
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["broker", "directory", "total", "used", "free", "logs"],
        ["1", "/a", "1000", "750", "250", "300"],
        ["2", "/b", "1000", "750", "250", "100"],
        ["2", "/c", "-", "-", "-", "0"],
        [],
        ["topic", "partitions", "replicas", "size", "share", "of", "disk"],
        ["orders", "2", "4", "200", "50.0%", "-"],
        ["refunds", "1", "1", "200", "50.0%", "-"],
        ["total", "3", "5", "400", "100.0%", "-"],
    ]
    assert err == "sawlog: the log directory '/c' is offline (KAFKA_STORAGE_ERROR)\n"


@pytest.mark.usefixtures("cluster")
def test_partitions_have_their_broker_and_directory(capsys: pytest.CaptureFixture[str]) -> None:
    run(["disk", "--partitions", "--top", "3"])
    assert lines(capsys)[5:] == [
        ["topic", "partition", "broker", "directory", "size", "share", "of", "disk"],
        ["refunds", "0", "1", "/a", "200", "50.0%", "20.0%"],
        ["orders", "0", "1", "/a", "100", "25.0%", "10.0%"],
        ["orders", "0", "2", "/b", "90", "22.5%", "9.0%", "7", "behind"],
        ["(2", "others)", "-", "-", "-", "10", "2.5%", "-"],
        ["total", "-", "-", "-", "400", "100.0%", "-"],
    ]
    run(["disk", "--partitions"])
    assert ["orders", "1", "1", "/a", "0", "0.0%", "0.0%", "future", "replica"] in lines(capsys)


@pytest.mark.usefixtures("cluster")
def test_usage_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["disk", "--json", "--top", "1"])
    found = json.loads(capsys.readouterr().out)
    assert [each["error"] for each in found["directories"]] == [None, None, "KAFKA_STORAGE_ERROR"]
    assert found["topics"] == [
        {
            "topic": "orders",
            "partitions": 2,
            "replicas": 4,
            "size_bytes": 200,
            "share": 0.5,
            "disk_share": None,
        }
    ]
