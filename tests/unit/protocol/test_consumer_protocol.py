"""The subscriptions and assignments embedded in JoinGroup and SyncGroup."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.errors import MalformedFrame
from sawlog.core.ids import TopicName
from sawlog.protocol.consumer_protocol import (
    NEWEST_VERSION,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
    write_subscription,
)
from sawlog.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    owned_partitions=[TopicPartition("a", [0, 7]), TopicPartition("b", [1])],
    generation_id=5,
    rack_id="rack",
)
ASSIGNMENT = {TopicName("b"): [1], TopicName("a"): [7, 0]}


def test_subscription_round_trips() -> None:
    assert read_subscription(write_subscription(SUBSCRIPTION)) == SUBSCRIPTION


def test_assignment_is_written_sorted_by_topic_and_index() -> None:
    message = read_assignment(write_assignment(ASSIGNMENT))
    found = [(topic.topic, topic.partitions) for topic in message.assigned_partitions]
    assert found == [("a", [0, 7]), ("b", [1])]


def test_version_0_subscription_has_no_owned_partitions() -> None:
    read = read_subscription(write_subscription(SUBSCRIPTION, 0))
    assert read.topics == ["a", "b"]
    assert (read.owned_partitions, read.generation_id) == ([], -1)


def test_later_version_is_read_as_the_newest_known() -> None:
    later = b"\0\x09" + write_assignment(ASSIGNMENT)[2:] + b"new fields"
    assert version_of(later) == NEWEST_VERSION
    assert read_assignment(later) == read_assignment(write_assignment(ASSIGNMENT))


@given(st.binary(max_size=60))
def test_reading_raises_malformed_frame_only(data: bytes) -> None:
    for read in (read_assignment, read_subscription):
        with contextlib.suppress(MalformedFrame):
            read(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\x03\x7f\xff\xff\xff"])
def test_truncated_and_negative_versions_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_assignment(data)
