"""Commands against a running broker: exit codes, output, pipes."""

import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.cli.commands import run
from sawlog.client import Consumer, Producer
from sawlog.core.ids import TopicPartition
from support.server.broker_process import SawlogServer, running_sawlog

_names = itertools.count()
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SawlogServer]:
    with running_sawlog(tmp_path_factory.mktemp("broker")) as server:
        yield server


class Sawlog:
    """The command line with the broker in its environment, run in this process for speed."""

    def __init__(self, capture: pytest.CaptureFixture[bytes], directory: Path) -> None:
        self._capture = capture
        self._input = directory / "input"

    def __call__(self, *arguments: str, lines: str | None = None, code: int = 0) -> str:
        """Run a command, expect this exit code; return its stdout, or its stderr if it fails."""
        if lines is not None:
            self._input.write_text(lines)
            arguments = (*arguments, "--file", str(self._input))
        self._capture.readouterr()
        exit_code = run(arguments)
        out, err = self._capture.readouterr()
        assert exit_code == code, err.decode()
        return (out if code == 0 else err).decode()


@pytest.fixture
def sawlog(
    server: SawlogServer,
    capsysbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Sawlog:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", server.bootstrap)
    return Sawlog(capsysbinary, tmp_path)


@pytest.fixture
def topic(sawlog: Sawlog) -> str:
    name = f"topic-{next(_names)}"
    sawlog("topics", "create", name, "-p", "3", "--config", "retention.ms=123456")
    return name


def test_topic_is_created_altered_and_deleted(sawlog: Sawlog, topic: str) -> None:
    listed = json.loads(sawlog("topics", "list", "--json"))
    assert {"name": topic, "partitions": 3, "replicas": 1, "internal": False} in listed
    sawlog("topics", "alter", topic, "-p", "4", "--config", "retention.ms=99")
    (described,) = json.loads(sawlog("topics", "describe", topic, "--json"))
    assert described["configs"] == {"retention.ms": "99"}
    assert [entry["end_offset"] for entry in described["partition_list"]] == [0, 0, 0, 0]
    sawlog("topics", "delete", topic)
    assert topic not in sawlog("topics", "list")


def test_internal_topic_is_deleted_only_with_force(
    sawlog: Sawlog, server: SawlogServer, topic: str
) -> None:
    with Consumer(server.bootstrap, group="billing") as consumer:
        consumer.commit({TopicPartition(topic, 0): 7})
    refused = sawlog("topics", "delete", topic, "__consumer_offsets", code=2)
    assert "committed offsets of all groups; nothing was deleted" in refused
    assert "Use --force to delete it" in refused
    assert {topic, "__consumer_offsets"} <= set(sawlog("topics", "list", "--internal").split())
    sawlog("topics", "delete", "__consumer_offsets", "--force")
    assert "__consumer_offsets" not in sawlog("topics", "list", "--internal").split()


def test_topics_are_printed_as_tables(sawlog: Sawlog, topic: str) -> None:
    lines = sawlog("topics", "list").splitlines()
    assert lines[0].split() == ["topic", "partitions", "replicas"]
    assert [topic, "3", "1"] in [line.split() for line in lines]
    assert "retention.ms=123456" in sawlog("topics", "describe", topic)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "a b"], "INVALID_TOPIC_EXCEPTION"),
        (["create", "new", "--config", "no.such=1"], "INVALID_CONFIG"),
        (["describe", "nope"], "there is no topic 'nope'"),
        (["delete", "nope"], "there is no topic 'nope'"),
        (["alter", "nope", "-p", "5"], "there is no topic 'nope'"),
        (["alter", "nope", "--config", "retention.ms=5"], "there is no topic 'nope'"),
    ],
)
def test_refusal_is_one_line_with_its_error_code(
    sawlog: Sawlog, arguments: list[str], words: str
) -> None:
    shown = sawlog("topics", *arguments, code=1)
    assert words in shown
    assert shown.count("\n") == 1


def test_existing_and_missing_topics_can_be_ignored(sawlog: Sawlog, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in sawlog("topics", "create", topic, code=1)
    sawlog("topics", "create", topic, "--if-not-exists")
    sawlog("topics", "delete", "nope", "--if-exists")


def test_lines_are_produced_and_consumed(sawlog: Sawlog, topic: str) -> None:
    sawlog("produce", topic, "-p", "1", lines="one\ntwo\n\nlast without an end")
    found = sawlog("consume", topic, "--from", "beginning", "--exit", "--show", "partition,offset")
    assert found.splitlines() == ["1\t0\tone", "1\t1\ttwo", "1\t2\t", "1\t3\tlast without an end"]


def test_keys_headers_and_nulls_are_produced(sawlog: Sawlog, topic: str) -> None:
    options = ("-k", ":", "-H", "a=b", "--null", "NULL", "-p", "0", "-c", "zstd")
    sawlog("produce", topic, *options, lines="k1:v1\nk2:NULL\n:v3\n")
    lines = sawlog("consume", topic, "--from", "beginning", "-e", "--json").splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["key"], r["value"]) for r in records] == [("k1", "v1"), ("k2", None), ("", "v3")]
    assert records[0]["headers"] == [{"name": "a", "value": "b"}]


def test_json_is_copied_between_topics_unchanged(sawlog: Sawlog, topic: str) -> None:
    lines = [
        {"key": "k", "value": "ü", "partition": 2, "timestamp": 17},
        {"key": None, "value_base64": "/w==", "partition": 0, "timestamp": 18},
        {"key": "", "value": None, "headers": {"h": None}, "partition": 1, "timestamp": 19},
    ]
    sawlog("produce", topic, "--json", lines="\n".join(json.dumps(line) for line in lines))
    everything = ("--from", "beginning", "-e", "--json")
    copied = sawlog("consume", topic, *everything)
    copy = f"{topic}-copy"
    sawlog("topics", "create", copy, "-p", "3")
    sawlog("produce", copy, "--json", lines=copied)
    again = sawlog("consume", copy, *everything).replace(copy, topic)
    assert sorted(again.splitlines()) == sorted(copied.splitlines())
    assert len(copied.splitlines()) == 3


def test_consume_starts_and_stops_at_the_given_offsets(sawlog: Sawlog, topic: str) -> None:
    lines = [{"value": str(n), "partition": 0, "timestamp": n * 1_000} for n in range(1, 7)]
    sawlog("produce", topic, "--json", lines="\n".join(json.dumps(line) for line in lines))

    def consume(*options: str) -> str:
        return " ".join(sawlog("consume", topic, *options).split())

    assert consume("--from", "2", "-p", "0", "-n", "2") == "3 4"
    assert consume("--from", "-2", "-p", "0", "-e") == "5 6"
    assert consume("--from", "1970-01-01T00:00:04.500Z", "-p", "0", "-e") == "5 6"
    assert consume("--from", "end", "-e") == ""
    assert "no offset 99" in sawlog("consume", topic, "--from", "99", "-p", "0", code=1)


def test_produce_stops_at_an_invalid_line(sawlog: Sawlog, topic: str) -> None:
    shown = sawlog("produce", topic, "-k", ":", lines="a:1\nb:2\nno key\n", code=1)
    assert "line 3: no key separator ':' in 'no key'" in shown
    assert "2 lines before it sent" in shown
    assert len(sawlog("consume", topic, "--from", "beginning", "-e").splitlines()) == 2


@pytest.mark.parametrize(
    "bad",
    [
        '{"partition": 9}',
        '{"timestamp": 99999999999999999999}',
        '{"value": "\\ud800"}',
        "[" * 50_000,
    ],
)
def test_lines_before_invalid_json_are_sent(sawlog: Sawlog, topic: str, bad: str) -> None:
    lines = f'{{"value": "first"}}\n{{"value": "second"}}\n{bad}\n{{"value": "never"}}\n'
    shown = sawlog("produce", topic, "--json", lines=lines, code=1)
    assert "line 3: " in shown
    assert "2 lines before it sent" in shown
    assert len(sawlog("consume", topic, "--from", "beginning", "-e").splitlines()) == 2


def test_alter_makes_all_changes_or_none(sawlog: Sawlog, topic: str) -> None:
    sawlog("topics", "alter", topic, "--config", "retention.ms=7", "-p", "1", code=1)
    sawlog("topics", "alter", topic, "--config", "retention.ms=x", "-p", "5", code=1)
    (described,) = json.loads(sawlog("topics", "describe", topic, "--json"))
    assert described["configs"] == {"retention.ms": "123456"}
    assert described["partitions"] == 3


def test_reset_of_an_unknown_setting_is_refused(sawlog: Sawlog, topic: str) -> None:
    shown = sawlog("topics", "alter", topic, "--reset", "retention.m", code=1)
    assert "did you mean retention.ms" in shown


@pytest.mark.parametrize("options", [(), ("-e",)])
def test_offset_out_of_range_fails_or_is_replaced(
    sawlog: Sawlog, topic: str, options: tuple[str, ...]
) -> None:
    sawlog("produce", topic, "-p", "0", lines="a\nb\n")
    start = ("consume", topic, "-p", "0", "-n", "2", "--from", "500", *options)
    assert "--offset-reset earliest" in sawlog(*start, code=1)
    assert sawlog(*start, "--offset-reset", "earliest") == "a\nb\n"


def test_next_bootstrap_address_is_tried_if_the_first_is_not_a_broker(
    sawlog: Sawlog, server: SawlogServer, topic: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=_answer_like_http, args=(other,), daemon=True).start()
        addresses = f"127.0.0.1:{other.getsockname()[1]},{server.bootstrap}"
        assert topic in sawlog("topics", "list", "-b", addresses)


def _answer_like_http(listening: socket.socket) -> None:
    connected, _ = listening.accept()
    with connected:
        connected.recv(1_000)
        connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_lost_broker_is_exit_code_3_with_the_delivered_count(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server:
        options = ["-b", server.bootstrap, "--timeout", "3"]
        run(["topics", "create", "t", "-b", server.bootstrap])
        producing = subprocess.Popen(
            [sys.executable, "-m", "sawlog.cli.main", "produce", "t", *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert producing.stdin is not None
        producing.stdin.write("one\n")
        producing.stdin.flush()
        run(["consume", "t", "-b", server.bootstrap, "--from", "beginning", "-n", "1"])
        server.kill()
        _, shown = producing.communicate("two\nthree\n", timeout=TIMEOUT_S)
    assert producing.returncode == 3
    assert "line 2: 2 records were not delivered" in shown
    assert "1 record delivered, 3 lines read" in shown


def test_error_for_a_corrupt_batch_has_the_next_offset(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with running_sawlog(tmp_path) as server:
        topic = ["t", "-b", server.bootstrap]
        assert run(["topics", "create", *topic, "-p", "1"]) == 0
        with Producer(server.bootstrap) as producer:
            for values in ([b"zero"], [b"one", b"two"], [b"three"]):
                producer.send("t", values, partition=0)
                producer.flush()  # a batch for each
        server.stop()
        segment = server.data / "t-0" / f"{0:020}.log"
        segment.write_bytes(segment.read_bytes().replace(b"two", b"TWO"))
        server.start()
        capsysbinary.readouterr()
        assert run(["consume", *topic, "--from", "beginning", "-e"]) == 1
        out, err = capsysbinary.readouterr()
        assert out == b"zero\n"
        assert b"t-0 at offset 1 cannot be read" in err
        assert b"(sawlog consume t -p 0 --from 3)" in err
        assert run(["consume", *topic, "-p", "0", "--from", "3", "-e"]) == 0
        assert capsysbinary.readouterr().out == b"three\n"


def test_too_large_record_fails_the_command(sawlog: Sawlog, topic: str) -> None:
    shown = sawlog("produce", topic, lines="x" * 2_000_000, code=1)
    assert "1 record was not delivered" in shown
    assert "MESSAGE_TOO_LARGE" in shown


def test_stdin_is_sent_when_it_pauses(server: SawlogServer, sawlog: Sawlog, topic: str) -> None:
    producing = subprocess.Popen(
        [sys.executable, "-m", "sawlog.cli.main", "produce", topic, "-b", server.bootstrap],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert producing.stdin is not None
    producing.stdin.write(b"first\nsecond, not yet en")
    producing.stdin.flush()
    assert sawlog("consume", topic, "--from", "beginning", "-n", "1") == "first\n"
    _, shown = producing.communicate(b"ded\n", timeout=TIMEOUT_S)
    assert producing.returncode == 0
    assert shown == f"produced 2 records to {topic}\n".encode()
    assert len(sawlog("consume", topic, "--from", "beginning", "-n", "2").splitlines()) == 2


def test_reader_that_exits_early_is_not_an_error(server: SawlogServer, topic: str) -> None:
    sawlog = f"SAWLOG_BOOTSTRAP={server.bootstrap} {sys.executable} -m sawlog.cli.main"
    script = (
        f"set -o pipefail; seq 1 100000 | {sawlog} produce {topic} 2>/dev/null &&"
        f" {sawlog} consume {topic} --from beginning -e | head -1"
    )
    ended = subprocess.run(["bash", "-c", script], capture_output=True, timeout=TIMEOUT_S)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_log_verify_accepts_the_files_of_the_broker(
    sawlog: Sawlog, topic: str, server: SawlogServer
) -> None:
    sawlog("produce", topic, "-c", "lz4", "-p", "0", lines="a\nb\nc\n")
    directory = str(server.data / f"{topic}-0")
    assert json.loads(sawlog("log", "verify", directory, "--json"))["records"] == 3
    assert "codec=lz4" in sawlog("log", "dump", directory)
