"""Keyed tables with a running broker, without Spark: what records do to rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.client.consumer.consumer import AtOffset
from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.delta.compaction import compact, compact_tiers
from sawlog.pipeline.delta.errors import KeyConflict
from sawlog.pipeline.delta.merge import MergedFiles, merge_changes
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver import batch_commit
from sawlog.pipeline.landing.driver.replay import resolve_replay_start, restore_to
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.confluent_values import Sent, Serializers
from support.pipeline.drivers import uncommitted
from support.pipeline.keyed_topics import Json, send_framed, send_keyed
from support.pipeline.landing import create_topic, land_here, pipeline_of, rows_of
from support.pipeline.schema_registry import running_registry
from support.server.broker_process import SawlogServer


def keyed_pipeline(path: Path, bootstrap: str, topic: str, settings: str) -> PipelineConfig:
    table = f"  t: {{topic: {topic}, mode: upsert, {settings}}}\n"
    return pipeline_of(path, bootstrap, table)


def landed(pipeline: PipelineConfig, *columns: str) -> list[tuple[Any, ...]]:
    land_here(pipeline)
    return sorted(tuple(row[name] for name in columns) for row in rows_of(the(pipeline).path))


def the(pipeline: PipelineConfig) -> LandedTable:
    return pipeline.landed[0]


def dead_letters(pipeline: PipelineConfig) -> list[tuple[int, str]]:
    return sorted((row["offset"], row["error"]) for row in rows_of(the(pipeline).dead_path))


def test_the_last_record_of_a_key_is_its_row_and_deletes_take_rows_away(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: id, delete_when: \"op = 'd'\""
    )
    send_keyed(
        broker.bootstrap,
        topic,
        [
            ({"id": 1}, {"id": 1, "name": "a"}),
            ({"id": 2}, {"id": 2, "name": "b"}),
            ({"id": 3}, {"id": 3, "name": "c"}),
            ({"id": 1}, {"id": 1, "name": "A"}),
        ],
    )
    send_keyed(broker.bootstrap, topic, [(7, {"id": 7, "name": "z"})], partition=1)
    assert landed(pipeline, "id", "name") == [(1, "A"), (2, "b"), (3, "c"), (7, "z")]
    send_keyed(
        broker.bootstrap,
        topic,
        [
            ({"id": 2}, {"id": 2, "op": "d"}),
            ({"id": 3}, None),
            ({"id": 4}, {"id": 4, "name": "d", "op": "c"}),
            ({"id": 4}, None),
            ({"id": 5}, None),
            ({"id": 5}, {"id": 5, "name": "e"}),
        ],
    )
    send_keyed(broker.bootstrap, topic, [(7, None)], partition=1)
    assert landed(pipeline, "id", "name") == [(1, "A"), (5, "e")]
    assert dead_letters(pipeline) == []
    assert uncommitted(the(pipeline).path) == set()
    compact(None, the(pipeline).path)
    send_keyed(broker.bootstrap, topic, [({"id": 1}, {"id": 1, "more": 0.5})])
    assert landed(pipeline, "id", "name", "more") == [(1, None, 0.5), (5, "e", None)]


def test_tombstones_that_name_no_key_and_rows_without_one_are_dead_letters(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, schema: 'a BIGINT, b STRING', key: [a, b]"
    )
    send_keyed(
        broker.bootstrap,
        topic,
        [
            (None, {"a": 1, "b": "x"}),
            (None, {"a": 1}),
            (None, None),
            ("1", None),
            (b'{"a": 1', None),
            ({"a": 1}, None),
            ({"a": "one", "b": "x"}, None),
            ({"schema": {"type": "struct"}, "payload": {"a": 1, "b": "x"}}, None),
            (None, {"a": 2, "b": "y"}),
        ],
    )
    assert landed(pipeline, "a", "b") == [(2, "y")]
    found = dead_letters(pipeline)
    assert [offset for offset, _ in found] == [1, 2, 3, 4, 5, 6]
    reasons = dict(found)
    assert reasons[1] == "no value for the key (a, b)"
    told = "a delete whose key does not give a, b: "
    assert reasons[2] == f"{told}no value"
    assert reasons[3] == f"{told}a number where an object was expected"
    assert reasons[5] == f"{told}no value for the key (a, b)"
    assert reasons[6] == f'{told}field a: expected bigint, found the string "one"'


@pytest.mark.parametrize("schema", ["infer", "'id STRING'"])
def test_a_single_key_of_a_tombstone_may_be_plain_text(
    broker: SawlogServer, topic: str, tmp_path: Path, schema: str
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, f"format: json, schema: {schema}, key: id"
    )
    names = ["a", 'q"uote\\', "12", '"j"', "é", "stays"]
    send_keyed(broker.bootstrap, topic, [("not a key", None)])
    send_keyed(broker.bootstrap, topic, ((name, {"id": name}) for name in names))
    send_keyed(
        broker.bootstrap,
        topic,
        [("a", None), ('q"uote\\', None), ("12", None), (json.dumps('"j"'), None),
         ({"payload": "é", "schema": {}}, None)],
    )  # fmt: skip
    assert landed(pipeline, "id") == [("stays",)]
    assert dead_letters(pipeline) == []


def test_keys_of_deletes_decide_no_types(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    """Tombstones that come first, in the same task as rows, in another task, in another batch."""
    create_topic(broker.bootstrap, topic, 2)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "format: json, key: id")
    send_keyed(broker.bootstrap, topic, [("text", None), (1, None)])
    assert landed(pipeline, "id") == []
    assert "id" not in Table.open(the(pipeline).path).schema.names
    rows = [(number, {"id": number}) for number in range(4)]
    send_keyed(broker.bootstrap, topic, [("text", None), *rows, (2, None)])
    send_keyed(broker.bootstrap, topic, [("text", None), (7, None)], partition=1)
    assert landed(pipeline, "id") == [(0,), (1,), (3,)]
    reason = "a delete whose key does not give id: not JSON: unexpected character, at byte 7"
    assert dead_letters(pipeline) == [(0, reason), (2, reason)]


def test_the_key_of_the_record_can_be_the_key_of_a_raw_table(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "key: key, commit: {rows: 2}")
    send_keyed(
        broker.bootstrap,
        topic,
        [
            (b"\xff", b"1"),
            (b"b", b"2"),
            (b"\xff", b"3"),
            (None, b"4"),
            (b"b", None),
            (b"", b"5"),
            (None, None),
        ],
    )
    assert landed(pipeline, "key", "value") == [(b"", b"5"), (b"\xff", b"3")]
    told = "no value for the key (key)"
    assert dead_letters(pipeline) == [
        (3, told),
        (6, f"a delete whose key does not give key: {told}"),
    ]


def test_values_with_the_id_of_a_schema_can_be_keyed(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path,
        broker.bootstrap,
        topic,
        "format: json, schema: 'id BIGINT, n BIGINT', options: {encoding: confluent}, key: id",
    )
    framed = [b'\0\0\0\0\7{"id": %d, "n": %d}' % (n % 3, n) for n in range(6)]
    send_keyed(broker.bootstrap, topic, [(None, value) for value in framed])
    send_keyed(broker.bootstrap, topic, [({"id": 1}, None)])
    assert landed(pipeline, "id", "n") == [(0, 3), (2, 5)]
    assert dead_letters(pipeline) == []


@pytest.mark.parametrize("in_header", [False, True], ids=["framed", "in-header"])
def test_tombstones_whose_keys_have_schemas_in_a_registry_delete(
    broker: SawlogServer, topic: str, tmp_path: Path, in_header: bool
) -> None:
    """Tombstones that come first, in another partition than rows, and after the table has rows."""
    create_topic(broker.bootstrap, topic, 2)
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"},
                                                       {"name": "n", "type": "int"}]}  # fmt: skip
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    with (
        running_registry() as registry,
        Serializers(registry.url, topic, in_header=in_header) as values,
        Serializers(registry.url, topic, in_header=in_header, is_key=True) as keys,
    ):
        pipeline = keyed_pipeline(
            tmp_path, broker.bootstrap, topic,
            f"format: avro, registry: '{registry.url}', key: id",
        )  # fmt: skip
        rows: list[tuple[Sent | None, Sent | None]] = [
            (None, values.avro(row, {"id": number, "n": number})) for number in range(4)
        ]
        send_framed(broker.bootstrap, topic, [(keys.avro(key, {"id": 9}), None)], 1)
        assert landed(pipeline, "offset") == []
        send_framed(broker.bootstrap, topic, [*rows, (keys.avro(key, {"id": 1}), None)])
        send_framed(broker.bootstrap, topic, [(keys.avro("int", 8), None)], 1)
        assert landed(pipeline, "id", "n") == [(0, 0), (2, 2), (3, 3)]
        unknown = Sent(b"\0\0\0\0\x63\2", [])
        send_framed(broker.bootstrap, topic, [(keys.avro("int", 2), None), (unknown, None)])
        assert landed(pipeline, "id") == [(0,), (3,)]
    told = "a delete whose key does not give id: schema id 99: the registry has no such schema"
    assert dead_letters(pipeline) == [(6, told)]


def event(op: str, before: Json = None, after: Json = None, *, wrapped: bool) -> dict[str, Any]:
    found = {"op": op, "before": before, "after": after, "ts_ms": 1, "source": {"table": "t"}}
    return {"schema": {"type": "struct", "fields": []}, "payload": found} if wrapped else found


@pytest.mark.parametrize("wrapped", [True, False])
def test_events_of_debezium_are_unwrapped_with_their_deletes(
    broker: SawlogServer, topic: str, tmp_path: Path, wrapped: bool
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: id, envelope: debezium"
    )

    def key(number: int) -> dict[str, Any]:
        found = {"id": number}
        return {"schema": {"type": "struct"}, "payload": found} if wrapped else found

    def row(number: int, text: str) -> dict[str, Any]:
        return {"id": number, "text": text, "nested": {"n": [number]}}

    quoted = 'a "quoted" \\ text'
    send_keyed(
        broker.bootstrap,
        topic,
        [
            (key(1), event("r", None, row(1, "one"), wrapped=wrapped)),
            (key(2), event("c", None, row(2, quoted), wrapped=wrapped)),
            (key(3), event("c", None, row(3, "three"), wrapped=wrapped)),
            (key(1), event("u", row(1, "one"), row(1, "ONE"), wrapped=wrapped)),
            (None, event("d", {"id": 3, "text": None}, None, wrapped=wrapped)),
            (key(4), None),
            (key(9), {"op": "x"}),
            (key(9), {"id": 9}),
            (key(9), event("u", row(9, "x"), None, wrapped=wrapped)),
            (key(9), b"broken"),
        ],
    )
    assert landed(pipeline, "id", "text", "nested") == [
        (1, "ONE", {"n": [1]}),
        (2, quoted, {"n": [2]}),
    ]
    assert [offset for offset, _ in dead_letters(pipeline)] == [6, 7, 8, 9]
    assert dead_letters(pipeline)[1][1] == "not a change event of Debezium: no field op"
    dead = {row["offset"]: row["value"] for row in rows_of(the(pipeline).dead_path)}
    assert dead[7] == b'{"id": 9}'
    send_keyed(broker.bootstrap, topic, [(key(2), event("d", None, None, wrapped=wrapped))])
    assert landed(pipeline, "id", "text") == [(1, "ONE")]


def test_a_delete_of_debezium_takes_its_key_from_no_other_column(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    """Rows of an outbox have a column with the name under which converters wrap events."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: id, envelope: debezium"
    )

    def row(number: int) -> dict[str, Any]:
        return {"id": number, "payload": json.dumps({"id": 1})}

    rows = [(n, event("c", None, row(n), wrapped=False)) for n in range(4)]
    deletes: list[tuple[Json, Json]] = [
        (None, event("d", row(0), None, wrapped=False)),
        ({"id": 2, "payload": "1"}, None),
        ({"payload": {"id": 3}}, None),
    ]
    send_keyed(broker.bootstrap, topic, [*rows, *deletes])
    assert landed(pipeline, "id") == [(1,)]
    assert dead_letters(pipeline) == []


def test_a_delete_of_debezium_without_its_row_takes_the_key_of_the_record(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: [id, shop], envelope: debezium"
    )
    rows = [{"id": number, "shop": "a", "n": number} for number in range(6)]
    keys: list[Json] = [{"id": number, "shop": "a"} for number in range(6)]
    deletes: list[tuple[Json, Json]] = [
        (keys[0], event("d", None, None, wrapped=False)),
        (keys[1], event("d", {"id": 1, "n": 1}, None, wrapped=False)),
        (keys[2], event("d", {"id": None, "shop": None}, None, wrapped=True)),
        ({"id": 9, "shop": "z"}, event("d", rows[3], None, wrapped=False)),
        (None, event("d", {"id": 4}, None, wrapped=False)),
        ({"id": 4}, event("d", {"id": 4}, None, wrapped=False)),
    ]
    creates = [(key, event("c", None, row, wrapped=False))
               for key, row in zip(keys, rows, strict=True)]  # fmt: skip
    send_keyed(broker.bootstrap, topic, [*creates, *deletes])
    assert landed(pipeline, "id") == [(4,), (5,)]
    told = "a delete whose key does not give id, shop: no value for the key (id, shop)"
    assert dead_letters(pipeline) == [(10, told), (11, told)]


def test_an_update_of_debezium_to_another_key_takes_the_old_row_away(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    """The key of the table is not that of the database, whose changes would be two events."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: [sku, shop], envelope: debezium"
    )

    def row(sku: str, shop: int = 1, n: int = 0) -> dict[str, Any]:
        return {"id": 7, "sku": sku, "shop": shop, "n": n}

    def update(before: Json, after: Json) -> tuple[Json, Json]:
        return {"id": 7}, event("u", before, after, wrapped=False)

    send_keyed(
        broker.bootstrap,
        topic,
        [
            update(None, row("a")),
            update(row("a"), row("b", n=1)),
            update(row("c"), row("c", n=2)),
            update({"sku": "c"}, row("d")),
            update({"id": 7, "sku": None, "shop": None}, row("e")),
        ],
    )
    kept = [("c", 1, 2), ("d", 1, 0), ("e", 1, 0)]
    assert landed(pipeline, "sku", "shop", "n") == [("b", 1, 1), *kept]
    send_keyed(
        broker.bootstrap,
        topic,
        [
            update(row("b"), row("b", 2, n=3)),
            update(row("b", 2), row("a", 2)),
            update(row("a", 2), row("b")),
            update({"sku": "d", "shop": "none"}, row("f")),
            update(row("e"), {"sku": None}),
        ],
    )
    assert landed(pipeline, "sku", "shop", "n") == [("b", 1, 0), *kept, ("f", 1, 0)]
    assert dead_letters(pipeline) == [(9, "no value for the key (sku, shop)")]


def test_a_truncation_stops_the_table(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path, broker.bootstrap, topic, "format: json, key: id, envelope: debezium"
    )
    send_keyed(
        broker.bootstrap,
        topic,
        [(1, event("c", None, {"id": 1}, wrapped=False)), (None, event("t", wrapped=True))],
    )
    with pytest.raises(LandingFailure) as failure:
        land_here(pipeline)
    assert f"{topic}-0 has a TRUNCATE at offset 1" in failure.value.message


def test_a_key_in_two_partitions_stops_the_table(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "format: json, key: id")
    send_keyed(broker.bootstrap, topic, [(1, {"id": 1}), (1, {"id": 1})])
    land_here(pipeline)
    send_keyed(broker.bootstrap, topic, [(5, {"id": 5}), (1, {"id": 1})], partition=1)
    with pytest.raises((KeyConflict, LandingFailure)) as failure:
        land_here(pipeline)
    told = f"the key id=1 is in two partitions: {topic}-0 at offset 1 and {topic}-1 at offset 1"
    assert told in str(failure.value)
    assert [row["id"] for row in rows_of(the(pipeline).path)] == [1]


def test_a_batch_is_merged_again_if_the_table_moved_on(
    broker: SawlogServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a compaction, and by another driver that lands the same batch."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "format: json, key: id")
    path = the(pipeline).path
    for number in range(2):
        send_keyed(broker.bootstrap, topic, [(number, {"id": number, "n": 0})])
        land_here(pipeline)
    merges: list[int] = []

    def merge_while(meanwhile: Callable[[], object]) -> None:
        def merge(table: Table, *arguments: Any) -> MergedFiles:
            merged = merge_changes(table, *arguments)
            merges.append(table.version)
            if len(merges) == 1:
                meanwhile()
            return merged

        monkeypatch.setattr(batch_commit, "merge_changes", merge)
        merges.clear()
        land_here(pipeline)

    send_keyed(broker.bootstrap, topic, [(0, {"id": 0, "n": 1}), (9, b"broken")])
    merge_while(lambda: compact(None, path))
    assert len(merges) == 2
    assert landed(pipeline, "id", "n") == [(0, 1), (1, 0)]
    send_keyed(broker.bootstrap, topic, [(1, {"id": 1, "n": 2}), (9, b"broken too")])
    merge_while(lambda: land_here(pipeline))
    assert len(merges) == 2
    assert landed(pipeline, "id", "n") == [(0, 1), (1, 2)]
    assert [offset for offset, _ in dead_letters(pipeline)] == [3, 5]
    assert uncommitted(path) == set()


def test_upkeep_merges_the_files_of_new_keys_which_no_batch_rewrites(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "format: json, key: id")
    path = the(pipeline).path
    for number in range(5):
        send_keyed(broker.bootstrap, topic, [(number, {"id": number, "n": 0})])
        land_here(pipeline)
    done = compact_tiers(path, 4)
    assert (done.files_before, done.files_after) == (5, 1)
    send_keyed(broker.bootstrap, topic, [(1, {"id": 1, "n": 1}), (2, None)])
    assert landed(pipeline, "id", "n") == [(0, 0), (1, 1), (3, 0), (4, 0)]


def test_a_keyed_table_is_replayed_as_a_whole_or_not_at_all(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, "format: json, key: id")
    send_keyed(broker.bootstrap, topic, [(1, {"id": 1, "n": n}) for n in range(3)])
    assert landed(pipeline, "id", "n") == [(1, 2)]
    table = the(pipeline)
    with Cluster(broker.bootstrap) as cluster:
        with pytest.raises(LandingFailure) as failure:
            restore_to(cluster, table, resolve_replay_start(cluster, table, AtOffset(1)))
        assert "replay it from offset 0, or into a new table" in failure.value.message
        assert [row["n"] for row in rows_of(table.path)] == [2]
        restore_to(cluster, table, resolve_replay_start(cluster, table, AtOffset(0)))
    assert rows_of(table.path) == []
    assert landed(pipeline, "id", "n") == [(1, 2)]


def test_the_key_of_a_table_cannot_change(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, topic, 1)
    settings = "format: json, schema: 'id BIGINT, other BIGINT'"
    pipeline = keyed_pipeline(tmp_path, broker.bootstrap, topic, f"{settings}, key: id")
    land_here(pipeline)
    changed = keyed_pipeline(tmp_path, broker.bootstrap, topic, f"{settings}, key: other")
    with pytest.raises(LandingFailure) as failure:
        land_here(changed)
    assert "has the key id, the file says the key other" in failure.value.message
    appends = pipeline_of(tmp_path, broker.bootstrap, f"  t: {{topic: {topic}, {settings}}}\n")
    with pytest.raises(LandingFailure) as failure:
        land_here(appends)
    assert "has the key id, the file says no key" in failure.value.message


def test_partitions_of_a_keyed_table_follow_its_rows(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    pipeline = keyed_pipeline(
        tmp_path,
        broker.bootstrap,
        topic,
        "format: json, schema: 'id BIGINT, land STRING', key: id, partition_by: [land]",
    )
    places = [(1, "de"), (2, "de"), (3, "")]
    send_keyed(broker.bootstrap, topic, [(n, {"id": n, "land": land}) for n, land in places])
    assert landed(pipeline, "id", "land") == [(1, "de"), (2, "de")]
    told = "field land: a table partitioned by it would have null in place of this value"
    assert dead_letters(pipeline) == [(2, told)]
    send_keyed(broker.bootstrap, topic, [(1, {"id": 1, "land": "fr"}), (3, None)])
    assert landed(pipeline, "id", "land") == [(1, "fr"), (2, "de")]
    files = Table.open(the(pipeline).path).files()
    assert sorted(file.partition_values["land"] or "" for file in files) == ["de", "fr"]
