"""The options of the sink: values, meaning, and errors."""

import re

import pytest

from sawlog.pipeline.sink.sink_options import (
    ALL_REPLICAS,
    ExactlyOnce,
    SinkOptions,
    read_sink_options,
)
from sawlog.pipeline.source.option_values import BadOption
from sawlog.protocol.compression import Codec

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(**written: str) -> SinkOptions:
    named = {name.replace("__", "."): value for name, value in written.items()}
    return read_sink_options(BROKERS | named)


def test_the_defaults_are_acks_all_and_idempotence() -> None:
    found = read()
    assert (found.acks, found.idempotent, found.codec) == (ALL_REPLICAS, True, Codec.NONE)
    assert found.topic is None


def test_every_option_has_its_meaning() -> None:
    found = read(
        topic=" logs ",
        checkpointLocation="/somewhere",
        kafka__acks="1",
        kafka__compression__type="LZ4",
        kafka__batch__size="1000",
        kafka__buffer__memory="2000",
        kafka__max__request__size="3000",
        kafka__max__block__ms="4000",
        kafka__delivery__timeout__ms="5000",
        kafka__linger__ms="5",
        kafka__client__id="me",
    )
    assert (found.topic, found.acks, found.idempotent) == ("logs", 1, False)
    assert (found.codec, found.batch_bytes, found.buffer_bytes) == (Codec.LZ4, 1_000, 2_000)
    assert (found.max_request_bytes, found.delivery_timeout_ms) == (3_000, 5_000)
    assert (found.brokers.timeout_ms, found.brokers.client_id) == (4_000, "me")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"topics": "x"}, "the sink 'sawlog' has no option 'topics'; did you mean 'topic'"),
        ({"kafka.acks": "2"}, "'kafka.acks' is '2': it takes 'all'"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "needs 'kafka.acks' to be 'all'"),
        ({"kafka.compression.type": "brotli"}, "'kafka.compression.type' is 'brotli'"),
        ({"kafka.batch.size": "-1"}, "'kafka.batch.size' is '-1'"),
        ({"kafka.partitioner.class": "x"}, "add a column 'partition'"),
        ({"kafka.key.serializer": "x"}, "keys are written as they are"),
        ({"kafka.transactional.id": "x"}, "set 'exactlyOnce' to true"),
        ({"subscribe": "x"}, "the sink 'sawlog' has no option 'subscribe'"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(written: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=re.escape(reason)):
        read(**written)


def test_exactly_once_has_a_marker_topic_and_a_timeout_of_fifteen_minutes() -> None:
    assert read().exactly_once is None
    assert read(exactlyOnce="false").exactly_once is None
    found = read(exactlyOnce="true", markerTopic="markers").exactly_once
    assert found == ExactlyOnce("markers", 15 * 60 * 1_000)
    shorter = read(
        exactlyOnce="true", markerTopic="markers", kafka__transaction__timeout__ms="60000"
    )
    assert shorter.exactly_once == ExactlyOnce("markers", 60_000)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"exactlyOnce": "true"}, "needs the option 'markerTopic'"),
        ({"exactlyOnce": "yes"}, "it takes true or false"),
        ({"markerTopic": "m"}, "'markerTopic' needs 'exactlyOnce'"),
        ({"kafka__transaction__timeout__ms": "1"}, "needs 'exactlyOnce' to be true"),
        ({"exactlyOnce": "true", "markerTopic": "m", "kafka__acks": "1"}, "to be 'all'"),
    ],
)
def test_contradictory_options_of_exactly_once_are_refused(
    written: dict[str, str], reason: str
) -> None:
    with pytest.raises(BadOption, match=reason):
        read(**written)
