"""The options of the source: values, meaning, and errors."""

import logging
import re

import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.source.batch_planning import Limits
from sawlog.pipeline.source.offset_json import AtOffsets, AtSameTime, AtTimes, Mark
from sawlog.pipeline.source.option_values import BadOption
from sawlog.pipeline.source.source_options import SourceOptions, Topics, read_source_options

LOGS = partition_of("logs", 0)
BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(streaming: bool = True, **written: str) -> SourceOptions:
    """Options by their names, with `__` for dots."""
    describe_partitions = {name.replace("__", "."): value for name, value in written.items()}
    topics = {"subscribe", "subscribePattern", "assign"}
    if not topics & describe_partitions.keys():
        describe_partitions["subscribe"] = "logs"
    return read_source_options(BROKERS | describe_partitions, streaming=streaming)


def test_the_defaults_are_those_of_sparks_connector() -> None:
    stream, batch = read(), read(streaming=False)
    assert (stream.starting, batch.starting) == (Mark.LATEST, Mark.EARLIEST)
    assert batch.ending is Mark.LATEST
    assert stream.limits == Limits(max_delay_ms=15 * 60 * 1_000)
    assert (stream.min_tasks, stream.max_task_records) == (None, None)
    assert stream.fail_on_data_loss
    assert not stream.late_start_is_latest
    assert not stream.client.read_committed
    assert stream.client.group is None
    assert (stream.offset_tries, stream.offset_retry_ms) == (3, 10)
    assert stream.read_timeout_ms == 120_000
    assert stream.columns == (
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    )  # fmt: skip


def test_the_largest_timeout_means_no_timeout() -> None:
    brokers = read(kafka__request__timeout__ms=f"{2**31 - 1}").client.brokers
    assert brokers.request_timeout_ms == 24 * 60 * 60 * 1_000  # the largest timeout of a socket


def test_names_are_found_whatever_their_case() -> None:
    assert read(SUBSCRIBE="a", maxoffsetspertrigger="7", subscribe="a").limits.max_records == 7


@pytest.mark.parametrize(
    ("written", "topics"),
    [
        ({"subscribe": " a, b ,,a"}, Topics(names=("a", "b"))),
        ({"subscribePattern": "log.*"}, Topics(pattern="log.*")),
        ({"assign": '{"logs": [0]}'}, Topics(partitions=(LOGS,))),
    ],
)
def test_topics_come_by_name_by_pattern_or_by_partition(
    written: dict[str, str], topics: Topics
) -> None:
    assert read(**written).topics == topics


@pytest.mark.parametrize(
    ("written", "starting"),
    [
        ({"startingOffsets": "earliest"}, Mark.EARLIEST),
        ({"startingOffsets": '{"logs": {"0": 5}}'}, AtOffsets({LOGS: 5})),
        ({"startingOffsetsByTimestamp": '{"logs": {"0": 5}}'}, AtTimes({LOGS: 5})),
        ({"startingTimestamp": "1000"}, AtSameTime(1_000)),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"logs": {"0": 5}}'},
            AtSameTime(1),
        ),
        (
            {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"logs": {"0": 5}}'},
            AtTimes({LOGS: 5}),
        ),
    ],
)
def test_where_to_start(written: dict[str, str], starting: object) -> None:
    assert read(**written).starting == starting


@pytest.mark.parametrize(
    ("written", "ending"),
    [
        ({"endingOffsets": "latest"}, Mark.LATEST),
        ({"endingOffsets": '{"logs": {"0": -1}}'}, AtOffsets({LOGS: -1})),
        ({"endingOffsetsByTimestamp": '{"logs": {"0": 5}}'}, AtTimes({LOGS: 5})),
        ({"endingTimestamp": "1000", "endingOffsets": "latest"}, AtSameTime(1_000)),
    ],
)
def test_where_a_batch_query_ends(written: dict[str, str], ending: object) -> None:
    assert read(streaming=False, **written).ending == ending


def test_every_other_option_has_its_meaning() -> None:
    found = read(
        startingOffsetsByTimestampStrategy="LATEST",
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="2m",
        minPartitions="8",
        maxRecordsPerPartition="50",
        failOnDataLoss="false",
        groupIdPrefix="mine",
        kafkaConsumer__pollTimeoutMs="5000",
        fetchOffset__numRetries="7",
        fetchOffset__retryIntervalMs="0",
        kafka__group__id="dashboards",
        kafka__isolation__level="read_committed",
        kafka__client__id="me",
        kafka__request__timeout__ms="1000",
        kafka__default__api__timeout__ms="2000",
        kafka__fetch__max__bytes="1000000",
        kafka__max__partition__fetch__bytes="500000",
        kafka__session__timeout__ms="6000",
        kafka__security__protocol="plaintext",
    )
    assert found.late_start_is_latest
    assert found.limits == Limits(max_records=100, min_records=10, max_delay_ms=120_000)
    assert (found.min_tasks, found.max_task_records) == (8, 50)
    assert not found.fail_on_data_loss
    assert found.read_timeout_ms == 5_000
    assert (found.offset_tries, found.offset_retry_ms) == (7, 0)
    assert (found.client.group, found.client.read_committed) == ("dashboards", True)
    assert found.client.fetch_bytes == 500_000
    brokers = found.client.brokers
    assert (brokers.bootstrap, brokers.client_id) == ("127.0.0.1:9092", "me")
    assert (brokers.request_timeout_ms, brokers.timeout_ms) == (1_000, 2_000)


@pytest.mark.parametrize(
    ("written", "columns"),
    [
        ({"columns": "value"}, ("value",)),
        ({"columns": "Offset, KEY"}, ("offset", "key")),
        ({"columns": "headers"}, ("headers",)),
        ({"columns": "key", "includeHeaders": "true"}, ("key",)),
    ],
)
def test_columns_are_chosen_in_their_order(
    written: dict[str, str], columns: tuple[str, ...]
) -> None:
    assert read(**written).columns == columns


def test_headers_come_when_asked_for() -> None:
    assert read(includeHeaders="true").columns[-1] == "headers"


@pytest.mark.parametrize(
    ("text", "ms"),
    [("250", 250), ("250ms", 250), ("2 s", 2_000), ("1h", 3_600_000), ("1d", 86_400_000)],
)
def test_times_are_written_as_spark_has_them(text: str, ms: float) -> None:
    assert read(maxTriggerDelay=text, minOffsetsPerTrigger="1").limits.max_delay_ms == ms


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (
            {"maxOffsetPerTrigger": "5"},
            "no option 'maxOffsetPerTrigger'; did you mean 'maxOffsetsPerTrigger'",
        ),
        ({"path": "x"}, "no option 'path'"),
        ({"kafka.gruop.id": "x"}, "did you mean 'kafka.group.id'"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "'subscribe' and 'assign' are given"),
        ({"subscribe": " , "}, "'subscribe' is ',': it names no topic"),
        ({"subscribePattern": "("}, "'subscribePattern' is '(': it is not a regular expression"),
        ({"assign": "a"}, "'assign' is 'a': it is not JSON"),
        ({"startingOffsets": "erliest"}, "'startingOffsets' is 'erliest': it takes 'earliest'"),
        ({"startingTimestamp": "now"}, "'startingTimestamp' is 'now': it takes a whole number"),
        ({"startingTimestamp": f"{2**63}"}, f"it takes a whole number from 0 to {2**63 - 1}"),
        ({"kafka__fetch__max__bytes": f"{2**31}"}, f"a whole number from 1 to {2**31 - 1}"),
        ({"maxOffsetsPerTrigger": "\u0663"}, "it takes a whole number"),
        ({"startingOffsetsByTimestamp": "5"}, "'startingOffsetsByTimestamp' is '5'"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "it takes 'error' or 'latest'"),
        ({"endingOffsets": "latest"}, "a stream has no end, so 'endingOffsets'"),
        ({"endingTimestamp": "5"}, "a stream has no end, so 'endingTimestamp'"),
        (
            {"maxOffsetsPerTrigger": "0"},
            "'maxOffsetsPerTrigger' is '0': it takes a whole number from 1 to",
        ),
        (
            {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
            "'minOffsetsPerTrigger' 6 is more than 'maxOffsetsPerTrigger' 5",
        ),
        ({"maxTriggerDelay": "5 weeks"}, "'maxTriggerDelay' is '5 weeks': it takes a time"),
        ({"minPartitions": "-1"}, "'minPartitions' is '-1'"),
        ({"maxRecordsPerPartition": "many"}, "'maxRecordsPerPartition' is 'many'"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' is 'yes': it takes true or false"),
        ({"includeHeaders": "1"}, "'includeHeaders' is '1'"),
        ({"columns": "valu"}, "there is no column 'valu'; did you mean 'value'"),
        ({"columns": "key,KEY"}, "it names the column 'key' twice"),
        ({"columns": "headers", "includeHeaders": "false"}, "'columns' asks for headers"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "'kafkaConsumer.pollTimeoutMs' is '0'"),
        ({"fetchOffset.numRetries": "0"}, "'fetchOffset.numRetries' is '0'"),
        ({"fetchOffset.retryIntervalMs": "-1"}, "'fetchOffset.retryIntervalMs' is '-1'"),
        ({"kafka.bootstrap.servers": "http://x"}, "'kafka.bootstrap.servers' is 'http://x'"),
        ({"kafka.isolation.level": "dirty"}, "'kafka.isolation.level' is 'dirty'"),
        ({"kafka.security.protocol": "SSL"}, "the client speaks PLAINTEXT only"),
        ({"kafka.auto.offset.reset": "latest"}, "set 'startingOffsets' instead"),
        ({"kafka.enable.auto.commit": "true"}, "offsets are committed after each batch"),
        ({"kafka.key.deserializer": "x"}, "keys are bytes"),
        ({"kafka.value.deserializer": "x"}, "values are bytes"),
        ({"kafka.interceptor.classes": "x"}, "interceptors are not"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(written: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=re.escape(reason)):
        read(**written)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' cannot be latest"),
        ({"startingOffsets": '{"logs": {"0": -1}}'}, "'startingOffsets' cannot be latest"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest"),
        ({"endingOffsets": '{"logs": {"0": -2}}'}, "'endingOffsets' cannot be earliest"),
        (
            {"startingOffsets": '{"logs": {"0": 9}}', "endingOffsets": '{"logs": {"0": 5}}'},
            "'startingOffsets' of logs-0 is 9, after 'endingOffsets' 5",
        ),
        (
            {"startingOffsets": '{"logs": {"0": 9}}', "endingOffsets": '{"logs": {"1": 9}}'},
            "must name the same partitions; logs-0, logs-1 is in one only",
        ),
        (
            {"startingTimestamp": "9", "endingTimestamp": "5"},
            "'startingTimestamp' 9 is after 'endingTimestamp' 5",
        ),
    ],
)
def test_a_batch_query_ends_after_it_starts(written: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=re.escape(reason)):
        read(streaming=False, **written)


def test_stream_options_are_warned_of_in_a_batch_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        read(streaming=False, maxOffsetsPerTrigger="5")
    assert "'maxOffsetsPerTrigger' is for streams" in caplog.text


def test_missing_topics_and_brokers_are_reported() -> None:
    with pytest.raises(BadOption, match=r"exactly one of 'subscribe'.*none is given"):
        read_source_options(BROKERS, streaming=True)
    with pytest.raises(BadOption, match=r"'kafka.bootstrap.servers' is missing"):
        read_source_options({"subscribe": "logs"}, streaming=True)
