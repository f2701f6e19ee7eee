"""The supervisor of a local cluster: joint output, order of start and stop, failed starts."""

import asyncio
import io
import sys
from pathlib import Path

import pytest

from sawlog.server.local_cluster import existing_brokers
from sawlog.server.supervisor import (
    MAX_BACKOFF_S,
    STABLE_S,
    CannotStart,
    JointOutput,
    ProcessPlan,
    RestartBackoff,
    Supervisor,
)
from sawlog.server.zookeeper_process import zookeeper_jars

READY = "here I am"
SERVE = f"""
import signal, sys
def stop(*_):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print({READY!r}, flush=True)
signal.pause()
"""


def serving(name: str) -> ProcessPlan:
    return ProcessPlan(name, [sys.executable, "-c", SERVE], ready_text=READY)


def test_lines_have_the_name_of_their_process_in_equal_width() -> None:
    stream = io.StringIO()
    output = JointOutput(stream, ["zookeeper", "broker-1"], is_coloured=False)
    output.write("broker-1", "hello")
    output.write("up", "done")
    assert stream.getvalue() == "broker-1  | hello\nup        | done\n"


def test_a_terminal_gets_a_colour_for_each_process() -> None:
    stream = io.StringIO()
    output = JointOutput(stream, ["a", "b"], is_coloured=True)
    output.write("a", "x")
    output.write("b", "x")
    first, second = stream.getvalue().splitlines()
    assert first.startswith("\x1b[36ma")
    assert second.startswith("\x1b[32mb")
    assert first.endswith("|\x1b[0m x")


def test_a_closed_output_is_ignored() -> None:
    stream = io.StringIO()
    stream.close()
    JointOutput(stream, ["a"], is_coloured=False).write("a", "hello")


def test_groups_start_in_order_and_stop_in_the_reverse_order() -> None:
    stream = io.StringIO()
    output = JointOutput(stream, ["store", "one", "two"], is_coloured=False)

    async def run() -> None:
        groups = [[serving("store")], [serving("one"), serving("two")]]
        ready = asyncio.Event()
        supervisor = Supervisor(groups, output, ready.set)
        running = asyncio.create_task(supervisor.run())
        await ready.wait()
        supervisor.stop()
        await running

    asyncio.run(run())
    lines = [line.split(" | ") for line in stream.getvalue().splitlines()]
    steps = [(name.strip(), text) for name, text in lines if name.strip() != "up"]
    assert steps[0] == ("store", READY)
    assert set(steps[1:3]) == {("one", READY), ("two", READY)}
    assert set(steps[3:5]) == {("one", "bye"), ("two", "bye")}
    assert steps[5] == ("store", "bye")


def test_a_process_that_ends_before_it_is_ready_ends_all() -> None:
    stream = io.StringIO()
    output = JointOutput(stream, ["good", "bad"], is_coloured=False)
    failing = ProcessPlan("bad", [sys.executable, "-c", "print('no'); exit(3)"], ready_text=READY)

    async def run() -> None:
        await Supervisor([[serving("good"), failing]], output, lambda: None).run()

    with pytest.raises(CannotStart, match="bad ended with exit code 3 at its start"):
        asyncio.run(run())
    assert "bad  | no" in stream.getvalue()


def test_the_back_off_of_a_process_that_dies_again_and_again_doubles_up_to_its_maximum() -> None:
    backoff = RestartBackoff()
    delays = [backoff.delay_s(ready_s) for ready_s in (5.0, 0.0, STABLE_S - 0.1, 0.0, 0.0, 0.0)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert {backoff.delay_s(0.0) for _ in range(100)} == {MAX_BACKOFF_S}


def test_the_back_off_begins_anew_after_a_stable_process() -> None:
    backoff = RestartBackoff()
    for _ in range(5):
        backoff.delay_s(0.0)
    assert [backoff.delay_s(STABLE_S), backoff.delay_s(0.0)] == [0.5, 1.0]


def test_brokers_of_a_directory_are_counted_by_the_highest_number(tmp_path: Path) -> None:
    assert existing_brokers(tmp_path / "missing") == 0
    for name in ("broker-1", "broker-3", "broker-x", "zookeeper"):
        (tmp_path / name).mkdir()
    assert existing_brokers(tmp_path) == 3


def test_the_jars_of_debian_are_used_without_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "metrics-core"]
    for name in [*names, "snappy-java"]:
        (tmp_path / f"{name}.jar").touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert {jar.name for jar in zookeeper_jars(tmp_path)} >= {"zookeeper.jar", "slf4j-simple.jar"}
