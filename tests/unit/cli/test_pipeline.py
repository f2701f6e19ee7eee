"""`sawlog pipeline` without Spark: invalid files, progress lines, replay starts."""

import io
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import BadParameter
from rich.console import Console
from rich.progress import Progress

from sawlog.cli import pipeline_progress
from sawlog.cli.commands import run
from sawlog.cli.pipeline_context import deferred_signals, stop_on_signal
from sawlog.cli.pipeline_progress import ProgressBars, ProgressLines, describe, describe_batches
from sawlog.cli.pipeline_tables import ReplayFrom, _row
from sawlog.client.consumer.consumer import AtOffset, AtTime
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.pipeline_status import TableStatus
from sawlog.pipeline.landing.driver.skipped_records import SkippedRecords
from sawlog.pipeline.landing.planning.batch_progress import BatchProgress
from support.pipeline.tables import land, new_table

HEAD = "brokers: 127.0.0.1:1\nlake: ./lake\ntables:\n"
BATCH = LandedBatch(7, 1_000, 5, 2_000_000, 2, 500_000, 0.5, {})


def test_a_file_with_errors_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  t: {{topic: a, fromat: json}}\n")
    assert run(["pipeline", "run", str(file)]) == 2
    assert (
        f"{file}:4: table 't' has no key 'fromat'; did you mean format" in capsys.readouterr().err
    )


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "status", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: No such file or directory" in capsys.readouterr().err


def test_each_problem_of_a_file_has_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"{HEAD}  t: {{topic: a, format: json, schema: 'a NUMBER'}}\n"
        "  u: {topic: b, partition_by: [nothing]}\n"
    )
    assert run(["pipeline", "check", str(file)]) == 2
    first, ddl, partition = capsys.readouterr().err.splitlines()
    assert first == "sawlog: 2 problems in the file"
    assert ddl.startswith(f"{file}:4: the schema of 't': ")
    assert partition == f"{file}:5: partition_by: there is no column 'nothing' to partition by"


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("lake", "reason"),
    [("/proc/nolake", "writing in /proc fails"), ("p.yaml/lake", "p.yaml is not a directory")],
)
def test_a_lake_that_cannot_be_created_is_reported_before_the_start(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    lake: str,
    reason: str,
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"brokers: 127.0.0.1:1\nlake: {lake}\ntables:\n  t: {{topic: a}}\n")
    assert run(["pipeline", command, str(file)]) == 1
    out, err = capsys.readouterr()
    told = out if command == "check" else err  # the findings of a check are its result
    assert f"{lake} cannot be created: " in told
    assert reason in told
    assert "choose another directory for 'lake'" in told
    assert "Spark" not in told


def test_a_check_leaves_nothing_behind_and_without_a_broker_has_its_own_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  t: {{topic: a}}\n")
    assert run(["pipeline", "check", str(file)]) == 3
    told = capsys.readouterr()
    assert told.out.startswith("t: no broker can be reached")
    assert told.err == ""
    assert list(tmp_path.iterdir()) == [file]


def test_numbers_of_a_status_have_thousands_separators() -> None:
    entry = TableStatus("t", "a", version=1_234, records_read=5_000_000, rows_per_s=12_345.67)
    row = _row(entry)
    assert (row[4], row[5], row[8], row[10]) == ("5,000,000", None, "12,345.7", "1,234")


@pytest.mark.parametrize(
    ("last_offsets", "shown"), [([], None), ([7], "8"), ([7, 1_001], "1,010"), ([7, None], "8+")]
)
def test_a_status_counts_the_skipped_offsets(
    last_offsets: list[int | None], shown: str | None
) -> None:
    skipped = [SkippedRecords("t", 0, 0, last, 0, "deleted", 5, 1) for last in last_offsets]
    assert _row(TableStatus("t", "a", skipped=skipped))[-2] == shown


def test_status_of_tables_that_do_not_exist_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  t: {{topic: a}}\n  u: {{topic: b}}\n")
    assert run(["pipeline", "status", str(file), "--json"]) == 3
    told = capsys.readouterr()
    first, second = json.loads(told.out)
    assert (first["table"], first["topic"], first["version"]) == ("t", "a", None)
    assert [entry["state"] for entry in (first, second)] == ["unknown", "unknown"]
    assert told.err.count("no broker can be reached") == 1


def test_a_check_reports_an_invalid_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  t: {{topic: a, format: json, schema: 'a NUMBER'}}\n")
    assert run(["pipeline", "check", str(file)]) == 2
    assert f"{file}:4: the schema of 't'" in capsys.readouterr().err


def test_a_replay_of_an_unknown_table_suggests_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  access: {{topic: a}}\n")
    assert run(["pipeline", "replay", "acess", "--from", "0", "-f", str(file)]) == 2
    assert "did you mean access" in capsys.readouterr().err


def test_a_replay_starts_at_offsets_or_a_time() -> None:
    kind = ReplayFrom()
    assert kind.convert("17", None, None) == AtOffset(17)
    assert kind.convert("0:17,2:20", None, None) == {0: 17, 2: 20}
    assert kind.convert("a.b-c/0:17,d/2:20", None, None) == {
        partition_of("a.b-c", 0): 17, partition_of("d", 2): 20,
    }  # fmt: skip
    assert kind.convert("1970-01-01T00:00:01Z", None, None) == AtTime(1_000)
    with pytest.raises(BadParameter, match=r"a time ago .*, an offset .*, one for each partition"):
        kind.convert("0:17,2", None, None)
    assert kind.convert("1738324800000", None, None) == AtOffset(1_738_324_800_000)
    with pytest.raises(BadParameter) as caught:
        kind.convert("soon", None, None)
    assert "milliseconds" not in caught.value.message
    with pytest.raises(BadParameter, match="'0:17,0:20' names a partition twice"):
        kind.convert("0:17,0:20", None, None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../t", "is not a valid table name"),
        ("", "is not a valid table name"),
        ("t__dead", "is not a valid table name"),
        ("_checkpoints", "reserved for the checkpoints of queries"),
        ("Access", "has a table 'Access'; choose a new name"),
    ],
)
def test_a_replay_into_an_invalid_or_existing_name_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  access: {{topic: a}}\n")
    call = ["pipeline", "replay", "access", "--from", "0", "--into", name, "-f", str(file)]
    assert run(call) == 2
    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["status", "compact"])
def test_a_corrupt_table_is_reported_and_the_others_are_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  bad: {{topic: a}}\n  good: {{topic: b}}\n")
    for name in ("bad", "good"):
        new_table(tmp_path / "lake" / name)
    (tmp_path / "lake" / "bad" / "_delta_log" / f"{1:020}.json").write_text("not JSON")
    assert run(["pipeline", command, str(file)]) == 1
    captured = capsys.readouterr()
    told = captured.out + captured.err
    assert "bad: " in told if command == "compact" else "bad    a      stopped" in told
    assert f"{1:020}.json is not a log entry" in told
    assert "good" in told


def test_spark_does_not_start_if_there_is_nothing_to_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  some: {{topic: a}}\n  none: {{topic: b}}\n")
    land(new_table(tmp_path / "lake" / "some"), 0, 0, 10)
    assert run(["pipeline", "compact", str(file)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "some: nothing to merge",
        "none: does not exist yet",
        "some, dead letters: does not exist yet",
        "none, dead letters: does not exist yet",
    ]
    assert told.err == ""


def test_a_directory_without_a_table_cannot_be_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "compact", str(tmp_path)]) == 2
    assert f"there is no table in {tmp_path}" in capsys.readouterr().err


def test_a_batch_is_one_line() -> None:
    line = describe("access", BATCH, 4_000)
    assert line.endswith(
        "access v7: 1,000 rows, 5 bad, 2.0 MB -> 2 files, 0.5 MB, 0.5 s, 2,010 rows/s (lag 4,000)"
    )


def test_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ProgressLines()
    lines.progress_measured("t", 10, 20)
    lines.batch_landed("t", BATCH, 12)
    lines.report("t", "waiting")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "(lag 8)" in captured.err
    assert "t: waiting" in captured.err


def test_long_batches_have_a_line_each_or_one_together() -> None:
    batches = {
        "b": BatchProgress(250_000, 1_000_000, 6.0, 50_000.0),
        "a": BatchProgress(0, 5_000, 7.0, 0.0),
        "c": BatchProgress(2_000, 2_000, 8.0, 900.0),
        "short": BatchProgress(1, 3, 0.5, 2.0),
    }
    assert describe_batches(batches, 5.0) == [
        "a: reading 5,000 records, 7 s",
        "b: 250,000 of 1,000,000 records read (25%), 50,000 records/s",
        "c: 2,000 records read, committing, 8 s",
    ]
    batches["d"] = BatchProgress(3_000, 3_000, 9.0, 10.0)
    assert describe_batches(batches, 5.0) == ["4 tables: 255,000 of 1,010,000 records read"]


def test_a_batch_in_flight_has_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(pipeline_progress.time, "monotonic", lambda: now_s)
    lines = ProgressLines()
    for read in range(60):
        lines.batch_progressed("t", BatchProgress(read, 100, read / 2, 2.0))
        now_s += 0.5
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        f"t: {read} of 100 records read ({read}%), 2 records/s" for read in (10, 20, 30, 40, 50)
    ]


def test_the_bar_of_a_table_moves_while_a_batch_is_read() -> None:
    with Progress(console=Console(file=io.StringIO())) as progress:
        bars = ProgressBars(progress, ["t"])
        (task,) = progress.tasks
        bars.progress_measured("t", 1_000, 5_000)
        bars.batch_progressed("t", BatchProgress(500, 4_000, 3.0, 700.0))
        assert (task.completed, task.fields["rate"]) == (1_500, "700 records/s")
        bars.progress_measured("t", 1_000, 6_000)
        assert (task.completed, task.total) == (1_500, 6_000)
        bars.batch_progressed("t", BatchProgress(4_000, 4_000, 9.0, 700.0))
        assert task.fields["rate"] == "committing"
        bars.batch_landed("t", BATCH, 5_000)
        assert task.completed == 5_000


class StoppedByAnotherThread(threading.Event):
    """The main thread may hold the lock of an event when it is interrupted by a handler."""

    def set(self) -> None:
        assert threading.current_thread() is not threading.main_thread()
        super().set()


def test_a_signal_handler_waits_for_no_lock_of_the_thread_that_it_interrupts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        if notes == ["t: waiting"]:
            signal.raise_signal(signal.SIGTERM)
            assert stop.wait(60)

    monkeypatch.setattr(pipeline_progress, "note", note)
    stop, lines = StoppedByAnotherThread(), ProgressLines()
    with stop_on_signal(stop, lines):
        lines.report("t", "waiting")
    assert notes == ["t: waiting", "sawlog: stopping after the commit in progress"]


def test_a_run_without_a_signal_reports_no_stop(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    with stop_on_signal(stop, ProgressLines()):
        pass
    assert not stop.is_set()
    assert capsys.readouterr().err == ""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's default Ctrl-C handler; an event loop of other tests may have replaced it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("signals", "is_started"), [(1, True), (2, False)])
def test_a_signal_is_deferred_while_spark_starts_but_a_second_is_not(
    capfd: pytest.CaptureFixture[str], signals: int, is_started: bool
) -> None:
    spark_started = []

    def start() -> None:
        with deferred_signals():
            for _ in range(signals):
                signal.raise_signal(signal.SIGINT)
            spark_started.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert bool(spark_started) is is_started
    assert capfd.readouterr().err == "sawlog: stopping, as soon as Spark has started\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_a_jvm_that_exits_after_a_signal_is_not_a_failed_start() -> None:
    """The JVM receives a signal to the process group too."""

    def start() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            raise ConnectionRefusedError

    with pytest.raises(KeyboardInterrupt):
        start()
    with pytest.raises(ConnectionRefusedError), deferred_signals():
        raise ConnectionRefusedError
