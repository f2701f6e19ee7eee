"""Positions as users write them and as a stream stores them."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.offset_json import (
    AtOffsets,
    AtTimes,
    Mark,
    StreamOffset,
    describe_partitions,
    parse_offsets,
    parse_partitions,
    parse_times,
    parse_where,
    read_stream_offset,
)

LOGS = partition_of("logs", 0)
OFFSETS = st.dictionaries(
    st.builds(partition_of, st.sampled_from(["a", "b.c", "logs-1"]), st.integers(0, 5)),
    st.integers(0, (1 << 63) - 1),
)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("earliest", Mark.EARLIEST),
        ("Latest", Mark.LATEST),
        ('{"logs": {"0": 23}}', AtOffsets({LOGS: 23})),
        ('{"logs": {"0": -2, "1": -1}}', AtOffsets({LOGS: -2, partition_of("logs", 1): -1})),
    ],
)
def test_a_position_is_a_mark_or_offsets(text: str, where: object) -> None:
    assert parse_where(text) == where


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", "'earliest', 'latest' or offsets; it is not JSON"),
        ("[1]", 'write {"topic": {"0": offset}}, not [1]'),
        ('{"logs": 5}', 'write {"topic": {"0": offset}}, not 5'),
        ('{"logs": {"x": 5}}', "'logs' has no partition 'x'"),
        ('{"logs": {"-1": 5}}', "'logs' has no partition '-1'"),
        ('{"logs": {"²": 5}}', "'logs' has no partition '²'"),
        ('{"logs": {"0": "5"}}', 'logs-0 has "5"'),
        ('{"logs": {"0": true}}', "logs-0 has true"),
        ('{"logs": {"0": 1.5}}', "logs-0 has 1.5"),
        ('{"logs": {"0": -3}}', "logs-0 has -3, and the lowest is -2"),
        ('{"logs": {"0": 9223372036854775808}}', "logs-0 has 9223372036854775808"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_an_invalid_position_says_what_is_valid(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_where(text)


def test_times_are_not_negative() -> None:
    assert parse_times('{"logs": {"0": 1000}}') == AtTimes({LOGS: 1_000})
    with pytest.raises(ValueError, match="logs-0 has -1"):
        parse_times('{"logs": {"0": -1}}')


def test_partitions_are_lists_of_numbers() -> None:
    found = parse_partitions('{"logs": [1, 0, 1], "access": [2]}')
    assert [str(partition) for partition in found] == ["access-2", "logs-0", "logs-1"]


@pytest.mark.parametrize("text", ['{"logs": 0}', '{"logs": [-1]}', '{"logs": ["0"]}', "{}", "[]"])
def test_an_empty_list_of_partitions_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="partitions are written"):
        parse_partitions(text)


@settings(deadline=None)
@given(offsets=OFFSETS, starts=OFFSETS)
def test_a_position_round_trips_through_spark(
    offsets: dict[TopicPartition, int], starts: dict[TopicPartition, int]
) -> None:
    position = StreamOffset(offsets, starts)
    written = json.dumps(position.to_json())
    assert read_stream_offset(json.loads(written)) == position
    assert json.dumps(read_stream_offset(json.loads(written)).to_json()) == written


def test_offsets_of_sparks_own_connector_are_read() -> None:
    assert read_stream_offset({"logs": {"0": 5}}) == StreamOffset({LOGS: 5}, {})
    assert parse_offsets('{"logs": {"0": 5}}').offsets == {LOGS: 5}


def test_a_long_list_is_cut() -> None:
    assert (
        describe_partitions([partition_of("a", index) for index in range(12)], 2)
        == "a-0, a-1 and 10 more"
    )
