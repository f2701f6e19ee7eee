"""`sawlog backup` with a running broker: what a restored broker serves, and what is refused."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.backup import backup_writer
from sawlog.client import AT_EARLIEST, Admin, Consumer, NewTopic, Producer, TopicPartition
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.sequence_numbers import init_producer_id
from support.cli.command_line import Sawlog, offsets
from support.cli.terminal import terminal
from support.server.broker_process import SawlogServer, running_sawlog

SEGMENT_BYTES = 1 << 20
TIMEOUT_S = 60
GROUP = "billing"
RECORDS = 120  # in two partitions
DELETED = 7  # of partition 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SawlogServer]:
    """A broker with two topics, one of them with several segments, and the offsets of a group."""
    settings = {"offsets.topic.num.partitions": "3"}
    with running_sawlog(tmp_path_factory.mktemp("broker"), settings) as server:
        with Admin(server.bootstrap) as admin:
            config = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
            new = [NewTopic("orders", 2, configs=config), NewTopic("empty", 1)]
            assert admin.create_topics(new) == {}
            with Producer(server.bootstrap, linger_ms=0) as producer:
                for number in range(RECORDS):
                    value = b"%d " % number + os.urandom(20_000)
                    producer.send("orders", value, key=b"k", partition=number % 2)
            admin.delete_records({partition(1): DELETED})
        with Consumer(server.bootstrap, group=GROUP) as consumer:
            consumer.subscribe(["orders"])
            read = 0
            while read < RECORDS - DELETED:
                read += len(consumer.poll(1_000))
            consumer.commit()
        yield server


def partition(index: int) -> Any:
    return TopicPartition("orders", index)  # type: ignore[arg-type]


@pytest.fixture
def sawlog(
    server: SawlogServer,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sawlog:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", server.bootstrap)
    return Sawlog(capsys, tmp_path)


def records(bootstrap: str, index: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of all records of a partition."""
    with Consumer(bootstrap) as consumer:
        consumer.assign({partition(index): AT_EARLIEST})
        found: list[Any] = []
        while not found or found[-1].offset < RECORDS // 2 - 1:
            found += consumer.poll(1_000)
    return [(each.offset, each.timestamp, each.key, each.value) for each in found]


def described(sawlog: Sawlog) -> list[tuple[Any, ...]]:
    """Name, id, configs and offsets of all topics."""
    return [
        (
            topic["name"],
            topic["id"],
            topic["configs"],
            [(each["start_offset"], each["end_offset"]) for each in topic["partition_list"]],
        )
        for topic in sawlog.json("topics", "describe")
    ]


def test_a_restored_broker_serves_the_same_topics_records_and_groups(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, node = tmp_path / "backup", tmp_path / "node"
    table = sawlog("backup", "create", str(backup), "--data", str(server.data))
    names = [line.split()[0] for line in table.splitlines()]
    assert names == ["topic", "__consumer_offsets", "empty", "orders"]
    sawlog("backup", "verify", str(backup))
    sawlog("backup", "restore", str(backup), "--data", str(node / "data"))
    old_topics = described(sawlog)
    old_records = [records(server.bootstrap, index) for index in range(2)]
    old_offsets = offsets(sawlog, GROUP)
    old_id = new_producer_id(server)
    with running_sawlog(node) as restored:
        monkeypatch.setenv("SAWLOG_BOOTSTRAP", restored.bootstrap)
        assert "recovered" not in restored.process.output
        assert described(sawlog) == old_topics
        assert [records(restored.bootstrap, index) for index in range(2)] == old_records
        assert offsets(sawlog, GROUP) == old_offsets == {0: RECORDS // 2, 1: RECORDS // 2}
        assert new_producer_id(restored) > old_id
        epochs = leader_epochs(restored)
        assert all(epochs[each] > epoch for each, epoch in leader_epochs(server).items())
        with Producer(restored.bootstrap) as producer:
            assert producer.send("orders", b"new", partition=0).result().offset == RECORDS // 2


def new_producer_id(server: SawlogServer) -> int:
    with Cluster([server.bootstrap]) as cluster:
        return init_producer_id(cluster).producer_id


def leader_epochs(server: SawlogServer) -> dict[tuple[str, int], int]:
    with Admin(server.bootstrap) as admin:
        return {
            (topic.name, index): found.leader_epoch
            for topic in admin.list_topics(include_internal=True)
            for index, found in topic.partitions.items()
        }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--topic", "orders"], ["__consumer_offsets", "orders"]),
        (["--topic", "orders", "--without-groups"], ["orders"]),
        (["--exclude", "orders"], ["__consumer_offsets", "empty"]),
        (["--exclude", "__consumer_offsets"], ["empty", "orders"]),
    ],
)
def test_topics_can_be_chosen(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    arguments = ["create", str(tmp_path / "backup"), "--data", str(server.data), *options]
    summary = sawlog.json("backup", *arguments)
    assert [topic["name"] for topic in summary["topics"]] == expected


@pytest.mark.parametrize(
    ("topic", "option"),
    [("orders", "--exclude=orders"), ("__consumer_offsets", "--without-groups")],
)
def test_a_topic_cannot_be_chosen_and_left_out(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path, topic: str, option: str
) -> None:
    arguments = ["create", str(tmp_path / "backup"), "--data", str(server.data)]
    sawlog("backup", *arguments, "--topic", topic, option, code=2)
    assert f"the topic {topic!r} is both chosen and left out" in sawlog.stderr
    assert not (tmp_path / "backup").exists()


def test_a_backup_overwrites_nothing(server: SawlogServer, sawlog: Sawlog, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    sawlog("backup", "create", str(tmp_path), "--data", str(server.data), code=1)
    assert "is not empty: a backup needs a new or an empty directory" in sawlog.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_backup_in_the_data_directory_is_refused(server: SawlogServer, sawlog: Sawlog) -> None:
    """The broker could take it for a partition."""
    target = server.data / "backup-1"
    sawlog("backup", "create", str(target), "--data", str(server.data), code=1)
    assert f"is in the data directory {server.data}" in sawlog.stderr
    assert not target.exists()


def test_the_data_directory_must_be_the_brokers(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path
) -> None:
    target = str(tmp_path / "backup")
    sawlog("backup", "create", target, "--data", str(tmp_path), code=1)
    assert "is not the data directory of a broker: it has no meta.properties" in sawlog.stderr
    properties = (server.data / "meta.properties").read_text()
    (tmp_path / "meta.properties").write_text(properties.replace("cluster.id=", "cluster.id=X"))
    sawlog("backup", "create", target, "--data", str(tmp_path), code=1)
    assert "give the --data and --bootstrap of one broker" in sawlog.stderr
    assert not (tmp_path / "backup").exists()


def test_a_data_directory_with_older_logs_is_refused(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path
) -> None:
    """For example a copy of the directory, made before some records were written."""
    old = tmp_path / "old"
    for index in range(2):
        (old / f"orders-{index}").mkdir(parents=True)
        (old / f"orders-{index}" / "00000000000000000000.log").touch()
    (old / "meta.properties").write_bytes((server.data / "meta.properties").read_bytes())
    arguments = [str(tmp_path / "backup"), "--data", str(old), "--without-groups"]
    sawlog("backup", "create", *arguments, "--topic", "orders", code=1)
    assert "holds offsets up to 0, but the broker serves offsets up to 60" in sawlog.stderr


def test_an_unknown_topic_is_an_error_and_nothing_is_left_behind(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path
) -> None:
    arguments = [str(tmp_path / "backup"), "--data", str(server.data), "--topic", "missing"]
    sawlog("backup", "create", *arguments, code=1)
    assert "there is no topic 'missing'" in sawlog.stderr
    assert not (tmp_path / "backup").exists()


def test_ctrl_c_leaves_nothing_behind(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backup_writer, "write_manifest", interrupted)
    sawlog("backup", "create", str(tmp_path / "backup"), "--data", str(server.data), code=130)
    assert not (tmp_path / "backup").exists()


KILLED_AT = """
    import os, signal, sys
    from sawlog.backup import backup_restorer, backup_writer
    from sawlog.cli.main import main

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    backup_writer.write_manifest = killed
    backup_restorer.create_store = killed
    main(sys.argv[1:])
"""


def run_killed(*arguments: str) -> None:
    program = [sys.executable, "-c", textwrap.dedent(KILLED_AT), *arguments]
    ended = subprocess.run(program, capture_output=True, timeout=TIMEOUT_S)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.long
def test_a_killed_create_is_not_a_backup_and_a_killed_restore_no_data_directory(
    server: SawlogServer, sawlog: Sawlog, tmp_path: Path
) -> None:
    backup, data = str(tmp_path / "backup"), str(tmp_path / "restored")
    run_killed("backup", "create", backup, "--data", str(server.data))
    assert (tmp_path / "backup" / "logs" / "orders-0").exists()
    for command in (["verify", backup], ["restore", backup, "--data", data]):
        sawlog("backup", *command, code=1)
        assert "is not a backup: it has no manifest.json" in sawlog.stderr
    sawlog("backup", "create", backup, "--data", str(server.data), code=1)
    assert "is not empty" in sawlog.stderr

    whole = str(tmp_path / "whole")
    sawlog("backup", "create", whole, "--data", str(server.data))
    run_killed("backup", "restore", whole, "--data", data)
    sawlog("backup", "restore", whole, "--data", data, code=1)
    assert f"a restore into {data} was interrupted" in sawlog.stderr
    command = [sys.executable, "-m", "sawlog", "broker", "--data", data, "--listen", "127.0.0.1:0"]
    broker = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert broker.returncode == 1
    assert "a restore into this directory was interrupted" in broker.stderr


@pytest.mark.long
def test_progress_is_shown_on_a_terminal(server: SawlogServer, tmp_path: Path) -> None:
    arguments = ["backup", "create", str(tmp_path / "backup"), "--data", str(server.data)]
    with terminal(*arguments, bootstrap=server.bootstrap) as screen:
        assert screen.end() == 0
    assert b"copying" in screen.shown
    assert b"orders" in screen.shown
