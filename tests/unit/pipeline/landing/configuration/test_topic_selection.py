"""Which topics a table lands: one, a list, or those that match a pattern."""

import pytest

from sawlog.client.net.metadata import Topic
from sawlog.core.ids import NO_TOPIC_ID, TopicName
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.topic_selection import TopicSelection
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile

HEAD = "brokers: b:1\nlake: ./lake\ntables:\n"


def table_of(entry: str) -> LandedTable:
    (table,) = parse_pipeline("p.yaml", f"{HEAD}  t: {{{entry}}}\n", {}).landed
    return table


def refusal(tables: str) -> str:
    with pytest.raises(BadPipelineFile) as caught:
        parse_pipeline("p.yaml", HEAD + tables, {})
    return str(caught.value)


def topic(name: str, *, is_internal: bool = False) -> Topic:
    return Topic(TopicName(name), NO_TOPIC_ID, is_internal, {})


def test_a_table_has_one_topic_a_list_or_a_pattern() -> None:
    assert table_of("topic: a").selection == TopicSelection(("a",))
    assert table_of("topics: [a, b, a]").selection == TopicSelection(("a", "b"))
    assert table_of("topics: a").selection == TopicSelection(("a",))
    assert table_of("topic_pattern: 'orders[.].*'").selection == TopicSelection(
        pattern="orders[.].*"
    )


def test_a_pattern_matches_whole_names_and_no_internal_topic() -> None:
    selection = TopicSelection(pattern=".*orders")
    topics = [topic("orders"), topic("eu.orders"), topic("orders2")]
    internal = topic("__orders", is_internal=True)
    assert [one.name for one in selection.among([*topics, internal])] == ["orders", "eu.orders"]
    assert TopicSelection(("__orders",)).among([internal]) == [internal]


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ("  t: {format: json}\n", "table 't' has no 'topic'"),
        ("  t: {topic: a, topics: [b]}\n", "table 't' has both 'topic' and 'topics'"),
        ("  t: {topic: a, topic_pattern: b}\n", "has both 'topic' and 'topic_pattern'"),
        ("  t: {topics: []}\n", "topics: expected at least one topic"),
        ("  t: {topics: [a, 'b c']}\n", "'b c' is not a valid topic name"),
        ("  t: {topic_pattern: 'a('}\n", "topic_pattern: 'a(' is not a regular expression"),
        ("  t: {topic_pattern: '(?=a)'}\n", "that RE2 accepts"),
        ("  t: {topic_paterns: a}\n", "did you mean topic_pattern"),
    ],
)
def test_other_selections_are_refused(tables: str, told: str) -> None:
    assert told in refusal(tables)


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ("topic: a", "topics: [b, a]", True),
        ("topics: [a, b]", "topics: [c]", False),
        ("topic_pattern: a.*", "topic: ab", True),
        ("topic: b", "topic_pattern: a.*", False),
        ("topic_pattern: a.*", "topic_pattern: b.*", True),
    ],
)
def test_tables_with_one_group_have_no_topic_in_common(
    one: str, other: str, overlaps: bool
) -> None:
    tables = f"  t: {{{one}, group: g}}\n  u: {{{other}, group: g}}\n"
    if overlaps:
        assert "'t' and 'u' read the topic" in refusal(tables)
    else:
        parse_pipeline("p.yaml", HEAD + tables, {})
    parse_pipeline("p.yaml", HEAD + tables.replace("group: g}\n  u", "group: h}\n  u"), {})
