"""What a consumer of partitions of its own choice commits, and when: its group has no members."""

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.client.consumer import AtOffset, Consumer
from sawlog.client.leaders import partition_of
from sawlog.client.membership import session
from sawlog.protocol.apis import ApiKey, advertised_versions
from sawlog.protocol.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)
from sawlog.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from support.scripted_broker import NODE_ID, ScriptedBroker

LOGS = partition_of("logs", 0)
GUARD_POLLS = 1_000


def committed(request: Any) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                partitions=[
                    OffsetCommitResponsePartition(each.partition_index) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(logs=1) as broker:
        for api in (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT):
            broker.offers[api] = advertised_versions(api)
        found = Coordinator("g", NODE_ID, broker.host, broker.port)
        broker.stand(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[found]))
        broker.stand(ApiKey.OFFSET_COMMIT, committed)
        yield broker


def offsets_in(broker: ScriptedBroker) -> list[int]:
    return [
        each.committed_offset
        for request in broker.asked(ApiKey.OFFSET_COMMIT)
        for topic in request.topics
        for each in topic.partitions
    ]


def test_a_commit_by_hand_is_made_where_nothing_has_changed(broker: ScriptedBroker) -> None:
    heard: list[Exception | None] = []
    with Consumer(broker.bootstrap, group="g", auto_commit_ms=None) as consumer:
        consumer.assign({LOGS: AtOffset(5)})
        consumer.commit()
        consumer.commit()
        consumer.commit_async(None, lambda _, error: heard.append(error))
    assert offsets_in(broker) == [5, 5, 5]
    assert heard == [None]


def polls_until_committed(consumer: Consumer, broker: ScriptedBroker, count: int) -> None:
    for _ in range(GUARD_POLLS):
        consumer.poll(1)
        if len(offsets_in(broker)) >= count:
            return
    raise AssertionError(offsets_in(broker))


def test_what_has_not_changed_is_committed_by_itself_now_and_then(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Consumer(broker.bootstrap, group="g", auto_commit_ms=1) as consumer:
        consumer.assign({LOGS: AtOffset(5)})
        consumer.commit()
        for _ in range(10):
            consumer.poll(2)
        assert offsets_in(broker) == [5]
    monkeypatch.setattr(session, "_RENEWAL_MS", 0)
    with Consumer(broker.bootstrap, group="g", auto_commit_ms=1) as consumer:
        consumer.assign({LOGS: AtOffset(5)})
        polls_until_committed(consumer, broker, 4)
