"""What members of classic groups tell each other, and what they are told that is none of it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.client.consumer.membership.client_assignors import Subscriber
from sawlog.client.consumer.membership.subscription_codec import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import KafkaError
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

OWNED = frozenset({partition_of("a", 0), partition_of("a", 7), partition_of("b", 1)})


def test_a_subscription_comes_back() -> None:
    subscriber = Subscriber(frozenset({"a", "b"}), OWNED, 5)
    assert read_subscription(write_subscription(subscriber, "rack"), None) == subscriber


def test_an_old_member_owns_nothing_that_it_told() -> None:
    data = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["a"]), 0)
    assert read_subscription(data, "i") == Subscriber(frozenset({"a"}), frozenset(), -1, "i")


def test_a_later_version_is_read_as_ours() -> None:
    data = write_assignment(OWNED)
    assert read_assignment(b"\0\x09" + data[2:] + b"more") == OWNED
    assert read_assignment(b"") == frozenset()


@given(st.binary(min_size=1, max_size=60))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    for read in (read_assignment, lambda some: read_subscription(some, None)):
        with contextlib.suppress(KafkaError):
            read(data)


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\x03\x7f\xff\xff\xff"])
def test_what_is_cut_or_lies_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaError, match="a member of the group sent what is no"):
        read_assignment(data)
