"""The options of the sink: values, meaning, and errors."""

import re

import pytest

from sawlog.pipeline.sink.sink_options import ALL_REPLICAS, SinkOptions, read_sink_options
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
        ({"kafka.transactional.id": "x"}, "does not write in transactions"),
        ({"subscribe": "x"}, "the sink 'sawlog' has no option 'subscribe'"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(written: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=re.escape(reason)):
        read(**written)
