"""Ids and their text forms."""

import pytest

from sawlog.core.ids import (
    NO_TOPIC_ID,
    PartitionIndex,
    TopicName,
    TopicPartition,
    format_topic_id,
    parse_topic_id,
)


def test_a_partitions_text_is_its_directory_name() -> None:
    assert str(TopicPartition(TopicName("a-b"), PartitionIndex(3))) == "a-b-3"


def test_a_topic_id_has_the_text_form_of_kafkas_tools() -> None:
    topic_id = bytes.fromhex("fbff" + "00" * 13 + "3e")
    assert format_topic_id(topic_id) == "-_8AAAAAAAAAAAAAAAAAPg"
    assert parse_topic_id("-_8AAAAAAAAAAAAAAAAAPg") == topic_id
    assert format_topic_id(NO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "A", "?"])
def test_an_invalid_topic_id_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"topic id|base64"):
        parse_topic_id(text)
