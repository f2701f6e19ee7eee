"""Tasks and commits with a running broker and real tables, without Spark."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.configs import Change, Resource, alter_configs
from sawlog.client.consumer.consumer import AtOffset, AtTime
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.core.config_api import Operation, ResourceType
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import TablePath
from sawlog.pipeline.delta.widening import widen_columns
from sawlog.pipeline.formats.landed_rows import RecordColumns
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver.replay import (
    From,
    InvalidReplayStart,
    resolve_replay_start,
    restore_to,
)
from sawlog.pipeline.landing.driver.table_setup import prepare
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from support.pipeline.landing import (
    create_topic,
    land_here,
    pipeline_of,
    records_of,
    rows_of,
    send,
    values_in,
)
from support.server.broker_process import SawlogServer


def test_types_that_tasks_infer_differently_are_merged_and_no_row_is_lost(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    """Two tasks: the first partition has integers, the second text and floats, changing within a
    chunk.
    """
    create_topic(broker.bootstrap, topic, 2)
    count = 30_000
    send(
        broker.bootstrap,
        topic,
        (
            {"a": number if number % 2 == 0 else f"t{number}", "b": number / 2, "n": number}
            for number in range(count)
        ),
    )
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    table = pipeline.landed[0]
    landed = land_here(pipeline)
    assert [batch.rows for batch in landed] == [count]
    rows = sorted(rows_of(table.path), key=lambda row: int(row["n"]))
    assert [(row["n"], row["a"]) for row in rows] == [
        (number, str(number) if number % 2 == 0 else f"t{number}") for number in range(count)
    ]
    assert [row["b"] for row in rows] == [number / 2 for number in range(count)]
    assert rows_of(table.dead_path) == []


def test_new_columns_are_committed_before_dead_letters(
    broker: SawlogServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"a": 1}, {"a": 2}])
    send(broker.bootstrap, topic, [b"broken"])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    table = pipeline.landed[0]

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            land_here(pipeline)
    assert "a" in Table.open(table.path).schema.names
    assert [row["value"] for row in rows_of(table.dead_path)] == [b"broken"]
    assert rows_of(table.path) == []
    land_here(pipeline)
    assert [row["a"] for row in rows_of(table.path)] == [1, 2]
    assert [row["value"] for row in rows_of(table.dead_path)] == [b"broken"]


def test_keys_land_as_text_and_headers_as_a_map(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    with Cluster(broker.bootstrap) as cluster, Producer(cluster) as producer:
        for key, value in ((b"one", b'{"a": 1, "headers": 5}'), (b"\xff", b'{"b": 2}')):
            producer.send(topic, value, key, headers=[("h", b"1"), ("h", b"2")])
    entry = f"{{topic: {topic}, format: json, columns: {{key: string, headers: map}}}}"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {entry}\n")
    table = pipeline.landed[0]
    (batch,) = land_here(pipeline)
    assert (batch.rows, batch.bad_rows) == (1, 1)
    (row,) = rows_of(table.path)
    assert [row[name] for name in ("key", "headers", "a", "value_headers")] == [
        "one", [("h", b"2")], 1, 5,
    ]  # fmt: skip
    assert "b" not in row, "a column of a record that did not land"
    (dead,) = rows_of(table.dead_path)
    assert (dead["key"], dead["value"], dead["error"]) == (
        b"\xff", b'{"b": 2}', "the key is not UTF-8: ff",
    )  # fmt: skip
    assert len(dead["headers"]) == 2
    changed = replace(table, columns=RecordColumns("binary", "map"))
    with Cluster(broker.bootstrap) as cluster, pytest.raises(LandingFailure) as caught:
        prepare(cluster, changed)
    assert "column 'key' is of type string in the table and binary" in caught.value.message


def test_hinted_fields_partition_a_table_and_hints_may_be_added(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"n": 1}, {"at": 1_700_000_000_000, "shop": "a", "price": 1}])
    more = "partition_by: [date(at), shop]"
    hints = "at TIMESTAMP(MILLIS), shop STRING"
    entry = f"  t: {{topic: {topic}, format: json, {more}, hints: "
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"{entry}'{hints}, price DOUBLE'}}\n")
    table = pipeline.landed[0]
    land_here(pipeline)
    send(broker.bootstrap, topic, [{"shop": "a", "price": 0.5, "paid": 7}])
    with_more = f"{entry}'{hints}, price DOUBLE, paid STRING'}}\n"
    land_here(pipeline_of(tmp_path, broker.bootstrap, with_more))
    rows = sorted(rows_of(table.path), key=lambda row: int(row["offset"]))
    names = ("shop", "price", "n", "paid")
    assert [(str(row["at_date"]), *(row[name] for name in names)) for row in rows] == [
        ("None", None, None, 1, None),
        ("2023-11-14", "a", 1.0, None, None),
        ("None", "a", 0.5, None, "7"),
    ]  # fmt: skip
    assert rows_of(table.dead_path) == []
    assert {file.partition_values["shop"] for file in Table.open(table.path).files()} == {None, "a"}


def test_fractions_widen_a_column_of_integers_and_all_rows_land(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    entry = f"  t: {{topic: {topic}, format: json, hints: 'n BIGINT'}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, entry)
    table = pipeline.landed[0]
    send(broker.bootstrap, topic, [{"price": 1, "s": {"a": 1}}, {"price": 2}])
    land_here(pipeline)
    rows = [{"price": 3}, {"price": 0.5, "s": {"a": 1.5}, "new": 7}, {"n": 1.5}, {"price": "x"}]
    send(broker.bootstrap, topic, rows)
    (batch,) = land_here(pipeline)
    assert (batch.rows, batch.bad_rows) == (2, 2)
    landed = sorted(rows_of(table.path), key=lambda row: float(row["price"]))
    assert [row["price"] for row in landed] == [0.5, 1.0, 2.0, 3.0]
    assert [(row["s"], row["new"]) for row in landed[:2]] == [({"a": 1.5}, 7), ({"a": 1.0}, None)]
    assert sorted(row["error"] for row in rows_of(table.dead_path)) == [
        "field n: expected bigint, found 1.5",
        'field price: expected double, found the string "x"',
    ]


def test_fractions_beside_integers_that_no_double_holds_are_dead_letters(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    table = pipeline.landed[0]
    send(broker.bootstrap, topic, [{"stored": 2**53 + 1, "n": 1}])
    land_here(pipeline)
    version = Table.open(table.path).version
    send(broker.bootstrap, topic, [{"stored": 0.5, "n": 1}, {"n": 1.5}, {"n": 2**53 + 1}])
    (batch,) = land_here(pipeline)
    assert (batch.rows, batch.bad_rows) == (1, 2)
    assert Table.open(table.path).version == version + 1, "no column was added or widened"
    assert [row["error"] for row in rows_of(table.dead_path)] == [
        f"field {name}: expected bigint, found {found}; the column has integers beyond 2^53, which"
        f" no double holds: land the topic in a new table with hints: {name} DECIMAL(38,9)"
        for name, found in (("stored", "0.5"), ("n", "1.5"))
    ]
    more = f"  t: {{topic: {topic}, format: json, hints: 'stored DOUBLE'}}\n"
    with pytest.raises(LandingFailure, match="have integers beyond 2"):
        land_here(pipeline_of(tmp_path, broker.bootstrap, more))


def test_a_hint_widens_an_existing_column(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    entry = f"{{topic: {topic}, format: json"
    send(broker.bootstrap, topic, [{"price": 1}])
    land_here(pipeline_of(tmp_path, broker.bootstrap, f"  t: {entry}}}\n"))
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {entry}, hints: price DOUBLE}}\n")
    send(broker.bootstrap, topic, [{"price": 2}])
    land_here(pipeline)
    assert [row["price"] for row in rows_of(pipeline.landed[0].path)] == [1.0, 2.0]


def test_a_batch_that_meets_the_widening_of_another_driver_lands_afterwards(
    broker: SawlogServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other driver widens between the dead letters of this batch and its rows."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    table = pipeline.landed[0]
    send(broker.bootstrap, topic, [{"price": 1}])
    land_here(pipeline)
    send(broker.bootstrap, topic, [{"price": 2}, {"price": "x"}])
    commit = Table.commit

    def widen_first(self: Table, *args: Any, **more: Any) -> Any:
        assert widen_columns(Table.open(self.path), ["price"])
        return commit(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", widen_first)
        with pytest.raises(LandingFailure) as caught:
            land_here(pipeline)
    assert caught.value.kind is FailureKind.CONFLICT
    assert rows_of(table.dead_path) == []
    land_here(pipeline)
    assert [row["price"] for row in rows_of(table.path)] == [1.0, 2.0]
    assert [row["value"] for row in rows_of(table.dead_path)] == [b'{"price": "x"}']


def test_an_empty_topic_makes_an_empty_table_with_start_offsets(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    pipeline = pipeline_of(
        tmp_path,
        broker.bootstrap,
        f"  t: {{topic: {topic}, format: json, schema: 'id BIGINT', start: latest, group: g}}\n",
    )
    table = pipeline.landed[0]
    assert land_here(pipeline) == []
    opened = Table.open(table.path)
    assert opened.offsets("g") == {partition_of(topic, 0): 0, partition_of(topic, 1): 0}
    assert opened.schema.names == ["topic", "partition", "offset", "timestamp", "key", "id"]
    send(broker.bootstrap, topic, [{"id": 7}])
    land_here(pipeline)
    assert [row["id"] for row in rows_of(table.path)] == [7]


def test_a_row_of_ten_megabytes_lands(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    with Cluster(broker.bootstrap) as cluster:
        resource = Resource(ResourceType.TOPIC, topic)
        change = Change("max.message.bytes", Operation.SET, str(16 * 1024 * 1024))
        assert not alter_configs(cluster, {resource: [change]})
    text = "x" * 10_000_000
    send(broker.bootstrap, topic, [{"t": "small"}, {"t": text}, b'{"t": "' + text.encode()])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    land_here(pipeline)
    assert [row["t"] for row in rows_of(pipeline.landed[0].path)] == ["small", text]
    assert [len(row["value"]) for row in rows_of(pipeline.landed[0].dead_path)] == [10_000_007]


def test_a_type_that_changes_within_a_task_is_merged(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    """One task with several chunks: integers, then floats, then text."""
    create_topic(broker.bootstrap, topic, 1)
    padding = "x" * 200
    kinds = [1, 2.5, "text"]
    send(
        broker.bootstrap,
        topic,
        ({"a": kinds[number // 40_000], "n": number, "p": padding} for number in range(120_000)),
    )
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    (batch,) = land_here(pipeline, tasks=1)
    assert (batch.rows, batch.bad_rows) == (120_000, 0)
    rows = {row["n"]: row["a"] for row in rows_of(pipeline.landed[0].path)}
    assert [rows[number] for number in (0, 40_000, 80_000)] == ["1", "2.5", "text"]
    assert len(rows) == 120_000


def test_a_batch_is_bounded_by_rows_and_by_bytes(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    send(broker.bootstrap, topic, (b"x" * 1_000 for _ in range(1_000)))
    tables = (
        f"  rows: {{topic: {topic}, commit: {{rows: 300}}}}\n"
        f"  bytes: {{topic: {topic}, commit: {{bytes: 100kB}}}}\n"
    )
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    landed = land_here(pipeline)
    rows = [batch.rows for batch in landed[:4]]
    assert rows == [300, 300, 300, 100]
    assert all(batch.rows <= 110 for batch in landed[4:])
    assert 9 <= len(landed[4:]) <= 12


def set_back_to(pipeline: PipelineConfig, start: dict[int, int]) -> LandedTable:
    (table,) = pipeline.landed
    with Cluster(pipeline.brokers) as cluster:
        restore_to(cluster, table, resolve_replay_start(cluster, table, start))
    return table


def test_a_restored_table_lands_the_same_rows_again(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    values = [json.dumps({"id": n}).encode() if n % 3 else b"{" for n in range(60)]
    send(broker.bootstrap, topic, values)
    tables = f"  t: {{topic: {topic}, format: json, commit: {{rows: 14}}}}\n"
    pipeline = pipeline_of(tmp_path, broker.bootstrap, tables)
    land_here(pipeline)
    table = pipeline.landed[0]
    rows, dead = rows_of(table.path), values_in(table.dead_path)
    set_back_to(pipeline, {0: 10, 1: 0})
    left = {(row["partition"], row["offset"]) for row in rows_of(table.path)}
    assert left == {
        (row["partition"], row["offset"])
        for row in rows
        if row["partition"] == 0 and row["offset"] < 10
    }
    land_here(pipeline)

    def place(row: dict[str, int]) -> tuple[int, int]:
        return row["partition"], row["offset"]

    assert sorted(rows_of(table.path), key=place) == sorted(rows, key=place)
    assert values_in(table.dead_path) == dead


def test_a_replay_that_died_blocks_landings_until_it_is_repeated(
    broker: SawlogServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"{"] * 20)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    land_here(pipeline)
    from sawlog.pipeline.landing.driver import replay

    whole = replay.restore_offsets

    def dies_at_the_table(table: Table, *rest: object, **more: object) -> object:
        if table.path.endswith("__dead"):
            return whole(table, *rest, **more)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(replay, "restore_offsets", dies_at_the_table)
        with pytest.raises(KeyboardInterrupt):
            set_back_to(pipeline, {0: 5})
    with pytest.raises(LandingFailure, match="a replay of 't' is running, or died"):
        land_here(pipeline)
    table = set_back_to(pipeline, {0: 5})
    land_here(pipeline)
    assert values_in(table.dead_path) == records_of(broker.bootstrap, topic)


@pytest.mark.parametrize("suffix", ["", "__dead"])
def test_either_table_may_be_deleted_and_created_again_after_a_replay(
    broker: SawlogServer, topic: str, tmp_path: Path, suffix: str
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"{", b'{"id": 1}'] * 5)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, format: json}}\n")
    land_here(pipeline)
    for _ in range(2):
        table = set_back_to(pipeline, {0: 5})
        land_here(pipeline)
    shutil.rmtree(table.path + suffix)
    send(broker.bootstrap, topic, [b"{", b'{"id": 2}'])
    if suffix:  # the operator has to decide
        set_back_to(pipeline, {0: 10})
    land_here(pipeline)
    set_back_to(pipeline, {0: 11})
    land_here(pipeline)
    assert len(rows_of(table.path)) == 6
    assert [place[1] for place, _ in values_in(table.dead_path)] == (
        [10] if suffix else [0, 2, 4, 6, 8, 10]
    )


def test_offsets_that_the_topic_no_longer_has_cannot_be_replayed(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"a"] * 9)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}}}\n")
    land_here(pipeline)
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).delete_records({partition_of(topic, 0): 4})
    with pytest.raises(LandingFailure, match="begins at offset 4"):
        set_back_to(pipeline, {0: 3})
    assert len(values_in(pipeline.landed[0].path)) == 9


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("group: other", "is filled by the group 'sawlog-t', the file says 'other'"),
        ("partition_by: [date(timestamp)]", "is partitioned by nothing, the file says otherwise"),
        ("format: json, schema: 'value BIGINT, value_value STRING'", None),
    ],
)
def test_a_table_that_contradicts_the_file_is_rejected(
    broker: SawlogServer, topic: str, tmp_path: Path, change: str, told: str | None
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    land_here(pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}}}\n"))
    changed = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, {change}}}\n")
    with pytest.raises(LandingFailure) as caught:
        land_here(changed)
    assert caught.value.kind is FailureKind.INVALID
    if told:
        assert told in caught.value.message


def test_a_topic_that_was_created_again_is_rejected(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [b"a"])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}}}\n")
    land_here(pipeline)
    with Cluster(broker.bootstrap) as cluster:
        assert not Admin(cluster).delete_topics([topic])
    create_topic(broker.bootstrap, topic, 1)
    with pytest.raises(LandingFailure, match="was deleted and created again"):
        land_here(pipeline)
    with pytest.raises(LandingFailure, match="was deleted and created again"):
        set_back_to(pipeline, {0: 0})
    assert len(values_in(pipeline.landed[0].path)) == 1


def test_a_table_of_another_topic_is_rejected(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (topic, f"{topic}.other"):
        create_topic(broker.bootstrap, name, 1)
        send(broker.bootstrap, name, [b"a", b"b"])
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}}}\n")
    land_here(pipeline)
    set_back_to(pipeline, {0: 0})
    land_here(pipeline)
    assert run(["pipeline", "check", pipeline.file]) == 0
    assert f"t: continues after 2 records in 1 partition of '{topic}'" in capsys.readouterr().out
    other = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}.other}}\n")
    with pytest.raises(LandingFailure, match=f"has records of {topic}, the file says"):
        land_here(other)
    assert len(values_in(pipeline.landed[0].path)) == 2


def test_partitions_added_later_land_from_their_first_record(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, start: latest}}\n")
    land_here(pipeline)
    with Cluster(broker.bootstrap) as cluster:
        assert not Admin(cluster).create_partitions({topic: 3})
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    land_here(pipeline)
    assert values_in(pipeline.landed[0].path) == records_of(broker.bootstrap, topic)


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (AtOffset(31), "ends before offset 31: its partitions end at 0:30, 1:30"),
        ({0: 3, 1: 31}, "end before that, at 1:30"),
        ({0: 3, 2: 1}, "has the partitions 0 to 1, not 2"),
        (AtTime(2**50), "has no record of that time or later"),
    ],
)
def test_a_replay_from_beyond_the_end_is_rejected_and_changes_nothing(
    broker: SawlogServer,
    topic: str,
    tmp_path: Path,
    start: From,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    send(broker.bootstrap, topic, (b"x" for _ in range(60)))
    pipeline = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}}}\n")
    land_here(pipeline)
    before = Table.open(pipeline.landed[0].path).version
    with (
        Cluster(broker.bootstrap) as cluster,
        pytest.raises(InvalidReplayStart, match=re.escape(told)),
    ):
        resolve_replay_start(cluster, pipeline.landed[0], start)
    if isinstance(start, dict):
        text = ",".join(f"{index}:{offset}" for index, offset in start.items())
        assert run(["pipeline", "replay", "t", "--from", text, "-f", pipeline.file]) == 2
        assert told in capsys.readouterr().err
    assert Table.open(pipeline.landed[0].path).version == before


def test_a_replay_from_an_offset_leaves_shorter_partitions_at_their_end(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    send(broker.bootstrap, topic, (b"x" for _ in range(5)))  # three and two
    config = LandedTable("t", TablePath(tmp_path / "t"), topic, "g")
    with Cluster(broker.bootstrap) as cluster:
        starts = resolve_replay_start(cluster, config, AtOffset(3))
    assert {tp.partition: at for tp, at in starts.items()} == {0: 3, 1: 2}
