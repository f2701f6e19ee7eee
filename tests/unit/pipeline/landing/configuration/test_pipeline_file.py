"""The pipeline file: valid content, and the messages for invalid content."""

from pathlib import Path

import pytest

from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtTime
from sawlog.pipeline.formats.landed_rows import RecordColumns
from sawlog.pipeline.landing.configuration.pipeline_config import (
    CommitBounds,
    LandedTable,
    Maintenance,
    QueryTable,
)
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline, read_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import (
    BadPipelineFile,
    parse_duration_s,
    parse_size,
)

HEAD = "brokers: 127.0.0.1:9092\nlake: ./lake\ntables:\n"
WHOLE = """\
brokers: 127.0.0.1:9092
lake: ./lake
tables:
  access:
    topic: access-log
    format: json            # raw, json, avro, protobuf, csv
    schema: infer           # or a DDL string, a schema file, or registry
    partition_by: [date(timestamp)]
    commit: {every: 10s, rows: 1000000, bytes: 256MB}
    group: lake-access
"""


def refusal(text: str) -> str:
    with pytest.raises(BadPipelineFile) as caught:
        parse_pipeline("p.yaml", text)
    return str(caught.value)


def landed(lines: str) -> LandedTable:
    table = parse_pipeline("p.yaml", f"{HEAD}  t:\n    topic: a\n{lines}").tables[0]
    assert isinstance(table, LandedTable)
    return table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Maintenance()),
        ("maintain: false\n", None),
        ("maintain: {every: 5m, small_files: 7, target: 64MB}\n", Maintenance(300, 7, 64_000_000)),
    ],
)
def test_maintenance_is_on_unless_it_is_turned_off(text: str, expected: Maintenance | None) -> None:
    content = f"brokers: 127.0.0.1:1\nlake: lake\n{text}tables:\n  t: {{topic: a}}\n"
    assert parse_pipeline("p.yaml", content).maintain == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [("maintain: often", "maintain: expected keys"), ("maintain: {small: 3}", "no key 'small'")],
)
def test_wrong_settings_of_maintenance_are_reported(text: str, problem: str) -> None:
    content = f"brokers: 127.0.0.1:1\nlake: lake\n{text}\ntables:\n  t: {{topic: a}}\n"
    with pytest.raises(BadPipelineFile, match=problem):
        parse_pipeline("p.yaml", content)


def test_the_file_of_the_documentation_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(WHOLE)
    pipeline = read_pipeline(str(file))
    assert pipeline.brokers == "127.0.0.1:9092"
    assert pipeline.lake == str(tmp_path / "lake")
    assert pipeline.tables == (
        LandedTable(
            name="access",
            path=str(tmp_path / "lake" / "access"),
            topic="access-log",
            group="lake-access",
            format="json",
            schema="infer",
            partition_by=("date(timestamp)",),
            commit=CommitBounds(10.0, 1_000_000, 256_000_000),
        ),
    )


@pytest.fixture
def avro_schema(tmp_path: Path) -> Path:
    file = tmp_path / "a.avsc"
    file.write_text('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}')
    return file


@pytest.mark.parametrize(("told", "ids"), [("7", "7"), ("[7, 9]", "7,9")])
def test_schema_ids_of_confluent_s_encoding_are_one_or_a_list(
    avro_schema: Path, told: str, ids: str
) -> None:
    options = f"{{encoding: confluent, schema_id: {told}}}"
    table = landed(f"    format: avro\n    schema: {avro_schema}\n    options: {options}\n")
    assert table.options == {"encoding": "confluent", "schema_id": ids}


def test_confluent_encoding_without_schema_ids_is_rejected_with_advice(
    avro_schema: Path,
) -> None:
    table = (
        f"{{topic: a, format: avro, schema: {avro_schema},\n    options: {{encoding: confluent}}}}"
    )
    told = refusal(f"{HEAD}  t: {table}\n")
    assert told.startswith("p.yaml:5: options: encoding: confluent needs schema_id")
    assert "write schema_id: 7 or schema_id: [7, 9]" in told


def test_other_options_reject_a_list() -> None:
    table = "{topic: a, format: csv, schema: a INT, options: {null: [a, b]}}"
    assert "options: expected text, not a list" in refusal(f"{HEAD}  t: {table}\n")


def test_missing_keys_have_defaults() -> None:
    table = landed("")
    assert (table.format, table.schema, table.group) == ("raw", "infer", "sawlog-t")
    assert table.commit == CommitBounds()
    assert table.start == AT_EARLIEST
    assert table.read_committed
    assert table.dead_path == table.path + "__dead"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("1m", 60), ("1.5h", 5_400), ("1d", 86_400)]
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("7", 7), ("64kB", 64_000), ("256MB", 256_000_000), ("1GiB", 2**30), ("1.5k", 1_500)],
)
def test_sizes_have_units(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["10", "0s", "-1s", "s", "10 years", "1e3s"])
def test_an_invalid_time_is_rejected(text: str) -> None:
    assert repr(text) in refusal(f"{HEAD}  t:\n    topic: a\n    commit: {{every: {text}}}\n")


@pytest.mark.parametrize("text", ["0", "-1", "MB", "12 apples", "0.1"])
def test_an_invalid_size_is_rejected(text: str) -> None:
    assert repr(text) in refusal(f"{HEAD}  t:\n    topic: a\n    commit: {{bytes: {text}}}\n")


def test_an_unknown_key_is_reported_with_its_line_and_the_nearest() -> None:
    text = refusal(f"{HEAD}  t:\n    topic: a\n    fromat: json\n")
    assert text == "p.yaml:6: table 't' has no key 'fromat'; did you mean format?"


def test_a_key_of_the_other_kind_of_table_is_reported() -> None:
    assert "table 't' has no key 'watermark'" in refusal(
        f"{HEAD}  t:\n    topic: a\n    watermark: {{timestamp: 1m}}\n"
    )


def test_all_problems_are_reported_at_once_by_line() -> None:
    lines = refusal(
        "brokers: nowhere:at:all\nlake: l\ntables:\n  t:\n    format: xml\n    commit: {rows: 0}\n"
    ).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "p.yaml:1", "p.yaml:5", "p.yaml:5", "p.yaml:6"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p.yaml:1: expected the keys brokers, lake and tables, not nothing"),
        ("- a\n", "not a list"),
        ("a: [1\n", "invalid YAML"),
        ("brokers: b:1\nlake: l\n", "the file has no 'tables'"),
        ("brokers: b:1\nlake: ftp://b/l\ntables: {t: {topic: a}}\n", "ftp:// is not supported"),
        ("brokers: b:1\nlake: l\ntables: {}\n", "tables: there are none"),
        ("brokers: b:1\nlake: l\ntables: [a]\n", "tables: expected keys with values, not a list"),
        (f"{HEAD}  t: {{topic: a}}\n  t: {{topic: b}}\n", "'t' is given twice"),
        (f"{HEAD}  a-b: {{topic: a}}\n", "'a-b' is not a valid table name"),
        (f"{HEAD}  a__dead: {{topic: a}}\n", "which is for dead letters"),
        (f"{HEAD}  t: {{}}\n", "table 't' has no 'topic'"),
        (f"{HEAD}  t: {{topic: a/b}}\n", "'a/b' is not a valid topic name"),
        (f"{HEAD}  t: {{topic: a, format: raw, schema: a INT}}\n", "raw takes no schema"),
        (f"{HEAD}  t: {{topic: a, format: csv}}\n", "csv needs the columns"),
        (f"{HEAD}  t: {{topic: a, format: avro}}\n", "avro needs the writer's schema"),
        (f"{HEAD}  t: {{topic: a, format: json, schema: a NUMBER}}\n", "p.yaml:4: the schema of"),
        (
            f"{HEAD}  t: {{topic: a, format: json, partition_by: status}}\n",
            "p.yaml:4: partition_by: there is no column 'status' to partition by; give",
        ),
        (f"{HEAD}  t: {{topic: a, partition_by: [date(tmestamp)]}}\n", "did you mean timestamp?"),
        (
            f"{HEAD}  t: {{topic: a, format: csv, schema: a INT,\n    options: {{delimitr: ;}}}}\n",
            "p.yaml:5: options: format csv has no option 'delimitr'",
        ),
        (
            f"{HEAD}  t: {{topic: a, partition_by: [date(offset)]}}\n",
            "'offset' is of type bigint: date() needs",
        ),
        (f"{HEAD}  t: {{topic: a, start: tomorrow}}\n", "expected earliest, latest or a time"),
        (f"{HEAD}  t: {{topic: a, start: 2025-01-31}}\n", "expected earliest, latest or a time"),
        (f"{HEAD}  t: {{topic: a, isolation: none}}\n", "read_committed or read_uncommitted"),
        (f"{HEAD}  t: {{topic: a, partition_by: [week(x)]}}\n", "date, hour or month of a column"),
        (f"{HEAD}  t: {{topic: a, partition_by: [b, b]}}\n", "2 of them make a column 'b'"),
        (f"{HEAD}  t: {{topic: [a]}}\n", "expected text, not a list"),
        (f"{HEAD}  t: {{topic: a}}\nspark: {{master: x}}\n", "'master' is not a Spark setting"),
        (f"{HEAD}  t: {{topic: a}}\n  T: {{topic: a}}\n", "if case is ignored"),
        (
            f"{HEAD}  t: {{topic: a, group: g}}\n  u: {{topic: a, group: g}}\n",
            "'t' and 'u' read the topic 'a' as the group 'g'",
        ),
        (f"{HEAD}  t: {{topic: a, sql: SELECT 1}}\n", "both 'topic' and 'sql'"),
        (
            f"{HEAD}  q: {{sql: SELECT * FROM r}}\n  r: {{sql: SELECT * FROM q}}\n",
            "the query of 'q' reads its own result",
        ),
        ("a: &x\n  b: *x\nbrokers: b:1\n", "nested deeper"),
    ],
)
def test_every_kind_of_problem_is_reported(text: str, told: str) -> None:
    assert told in refusal(text)


def test_the_columns_of_the_record_can_be_chosen() -> None:
    assert landed("").columns == RecordColumns("binary", "none")
    assert landed("    columns: {key: string, headers: map}\n").columns == RecordColumns(
        "string", "map"
    )
    told = refusal(f"{HEAD}  t: {{topic: a, columns: {{key: text, headers: list, offset: no}}}}\n")
    assert "key: expected one of binary, string, not 'text'" in told
    assert "headers: expected one of none, map, array, not 'list'" in told
    assert "columns has no key 'offset'; there are headers, key" in told


def test_a_keyed_table_has_binary_keys_of_records() -> None:
    keyed = "topic: a, mode: upsert, key: key, columns: {key: string}"
    assert "columns: the key of a record is binary" in refusal(f"{HEAD}  t: {{{keyed}}}\n")


def test_an_avro_field_named_headers_and_a_column_for_headers_are_refused(tmp_path: Path) -> None:
    record = '{"type": "record", "name": "r", "fields": [{"name": "Headers", "type": "int"}]}'
    (tmp_path / "a.avsc").write_text(record)
    lines = f"format: avro, schema: {tmp_path}/a.avsc"
    parse_pipeline("p.yaml", f"{HEAD}  t: {{topic: a, {lines}}}\n")
    told = refusal(f"{HEAD}  t: {{topic: a, {lines}, columns: {{headers: map}}}}\n")
    assert "the schema of 't' has a field 'Headers', and `columns` adds a column" in told


def test_a_start_may_be_the_end_or_a_moment() -> None:
    assert landed("    start: latest\n").start == AT_LATEST
    assert landed("    start: 1970-01-01T00:00:01Z\n").start == AtTime(1_000)
    assert landed("    start: 1970-01-01 01:00:01+01:00\n").start == AtTime(1_000)


def test_an_avro_schema_lies_beside_the_file(tmp_path: Path) -> None:
    text = f"{HEAD}  t: {{topic: a, format: avro, schema: schemas/a.avsc}}\n"
    with pytest.raises(BadPipelineFile, match=r"p.yaml:4: .*a.avsc: No such file or directory"):
        parse_pipeline(str(tmp_path / "p.yaml"), text)
    (tmp_path / "schemas").mkdir()
    record = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    (tmp_path / "schemas" / "a.avsc").write_text(record)
    table = parse_pipeline(str(tmp_path / "p.yaml"), text).tables[0]
    assert isinstance(table, LandedTable)
    assert table.schema == str(tmp_path / "schemas" / "a.avsc")


def test_a_query_depends_on_the_tables_that_it_reads() -> None:
    text = (
        f"{HEAD}  access: {{topic: a}}\n  other: {{topic: b}}\n"
        "  minutes:\n    sql: SELECT minute, count(*) FROM access GROUP BY 1\n"
        "    key: minute\n    watermark: {timestamp: 1m}\n    every: 2s\n"
    )
    query = parse_pipeline("p.yaml", text).tables[2]
    assert isinstance(query, QueryTable)
    assert query.tables == ("access",)
    assert query.key == ("minute",)
    assert query.watermark == {"timestamp": 60.0}
    assert query.every_s == 2.0
    assert query.checkpoint.endswith("lake/_checkpoints/minutes")


def test_a_column_may_have_the_name_of_another_query() -> None:
    text = (
        f"{HEAD}  access: {{topic: a}}\n"
        "  minutes: {sql: 'SELECT page, count(*) AS visits FROM access GROUP BY page'}\n"
        "  visits: {sql: SELECT sum(visits) AS n FROM minutes}\n"
    )
    _, minutes, visits = parse_pipeline("p.yaml", text).tables
    assert isinstance(minutes, QueryTable)
    assert isinstance(visits, QueryTable)
    assert (minutes.tables, visits.tables) == (("access",), ("minutes",))


def test_a_lake_may_be_in_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    text = HEAD.replace("./lake", "~/lake") + "  t: {topic: a}\n"
    assert parse_pipeline("p.yaml", text).lake == "/somewhere/lake"


def test_a_table_cannot_have_the_name_of_the_checkpoints() -> None:
    assert "checkpoints of queries" in refusal(f"{HEAD}  _checkpoints: {{topic: a}}\n")


def test_a_value_that_is_not_text_is_one_problem() -> None:
    assert len(refusal("\0\0").splitlines()) == 1


def test_an_avro_file_is_rejected_for_json() -> None:
    told = refusal(f"{HEAD}  t: {{topic: a, format: json, schema: a.avsc}}\n")
    assert told.endswith(
        "json takes the columns as DDL, infer, or registry; an Avro file is for avro"
    )


STORE = """
brokers: b:1
lake: s3://bucket/some/lake/
lake_options:
  endpoint: http://127.0.0.1:9000
  region: eu-west-1
  access_key_id: key-of-the-lake
  secret_access_key: word-of-the-lake
tables:
  t: {topic: a}
"""
QUERY = "  q: {sql: SELECT * FROM t}\n"


def test_a_lake_may_be_in_an_object_store() -> None:
    pipeline = parse_pipeline("/where/p.yaml", STORE)
    assert pipeline.lake == "s3://bucket/some/lake"
    (table,) = pipeline.landed
    assert (table.path, table.dead_path) == (
        "s3://bucket/some/lake/t", "s3://bucket/some/lake/t__dead",
    )  # fmt: skip
    assert table.dead_path.options["secret_access_key"] == "word-of-the-lake"
    assert "of-the-lake" not in repr(pipeline)


def test_queries_of_an_object_store_need_a_directory_for_checkpoints() -> None:
    assert "checkpoints: DIRECTORY" in refusal(STORE + QUERY)
    pipeline = parse_pipeline("/where/p.yaml", STORE + QUERY + "checkpoints: ./state\n")
    assert [query.checkpoint for query in pipeline.queries] == ["/where/state/q"]
    assert "expected a directory" in refusal(STORE + QUERY + "checkpoints: s3://b/c\n")


def test_checkpoints_may_be_moved_out_of_a_directory_too() -> None:
    for more, wanted in (("", "/where/l/_checkpoints/q"), ("checkpoints: /state\n", "/state/q")):
        made = f"brokers: b:1\nlake: ./l\n{more}tables:\n  t: {{topic: a}}\n{QUERY}"
        assert [query.checkpoint for query in parse_pipeline("/where/p.yaml", made).queries] == [
            wanted
        ]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("s3://bucket/some/lake/", "s3://key:word@bucket/l"), "a bucket and a prefix only"),
        (("s3://bucket/some/lake/", "s3:///l"), "names no bucket"),
        (("s3://bucket/some/lake/", "./lake"), "the lake is a directory"),
        (("secret_access_key: word", "secret_key: word"), "'secret_key' is not valid"),
        (("secret_access_key: word-of-the-lake", "x: [word]"), "names with one value each"),
        (("region: eu-west-1", "profile: nobody-has-it"), "no AWS profile 'nobody-has-it'"),
    ],
)
def test_wrong_options_are_refused_without_their_values(
    wrong: tuple[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    text = refusal(STORE.replace(*wrong))
    assert told in text
    assert "word" not in text.replace("'secret_key'", "")
