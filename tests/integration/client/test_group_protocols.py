"""The protocol of a member if the broker has disabled the consumer protocol."""

from pathlib import Path

import pytest

from sawlog.client import (
    Admin,
    ConsumedRecord,
    Consumer,
    ErrorCode,
    GroupSettings,
    KafkaError,
    NewTopic,
    Producer,
)
from support.server.broker_process import running_sawlog

GUARD_POLLS = 300
POLL_MS = 100
CLASSIC_ALONE = {
    "group.coordinator.rebalance.protocols": "classic",
    "group.initial.rebalance.delay.ms": "0",
}


def read_one(consumer: Consumer) -> ConsumedRecord:
    for _ in range(GUARD_POLLS):
        if records := consumer.poll(POLL_MS):
            return records[0]
    raise AssertionError("nothing came")


def test_a_disabled_consumer_protocol_falls_back_to_classic(tmp_path: Path) -> None:
    with running_sawlog(tmp_path, CLASSIC_ALONE) as server, Admin(server.bootstrap) as admin:
        assert admin.create_topics([NewTopic("t", partitions=1)]) == {}
        with Producer(server.bootstrap) as producer:
            producer.send("t", b"a")
        with Consumer(server.bootstrap, group="g") as consumer:
            consumer.subscribe(["t"])
            assert read_one(consumer).value == b"a"
            assert admin.describe_groups(["g"])[0]["g"].type == "classic"
        chosen = GroupSettings("h", protocol="consumer")
        with Consumer(server.bootstrap, group=chosen) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(KafkaError) as raised:
                read_one(consumer)
            assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
