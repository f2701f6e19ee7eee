"""Start positions and commits of a consumer whose group has no members."""

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.client.consumer.assigned_partitions import AssignedPartitions
from sawlog.client.consumer.consumer import AtOffset, Consumer
from sawlog.client.consumer.fetcher import FetchLimits
from sawlog.client.consumer.membership import group_session
from sawlog.client.consumer.membership.group_session import GroupSession
from sawlog.client.consumer.start_positions import OffsetReset
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.wakeup import Wakeup
from sawlog.core.errors import ErrorCode, KafkaError
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
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from support.client.scripted_broker import NODE_ID, ScriptedBroker

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
        for api in (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
            broker.offers[api] = advertised_versions(api)
        found = Coordinator("g", NODE_ID, broker.host, broker.port)
        broker.always_reply(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[found]))
        broker.always_reply(ApiKey.OFFSET_COMMIT, committed)
        nothing = OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g")])
        broker.always_reply(ApiKey.OFFSET_FETCH, nothing)
        yield broker


def offsets_in(broker: ScriptedBroker) -> list[int]:
    return [
        each.committed_offset
        for request in broker.requests_for(ApiKey.OFFSET_COMMIT)
        for topic in request.topics
        for each in topic.partitions
    ]


def test_a_manual_commit_is_sent_even_if_nothing_has_changed(broker: ScriptedBroker) -> None:
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


def test_auto_commit_renews_unchanged_offsets(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Consumer(broker.bootstrap, group="g", auto_commit_ms=1) as consumer:
        consumer.assign({LOGS: AtOffset(5)})
        consumer.commit()
        for _ in range(10):
            consumer.poll(2)
        assert offsets_in(broker) == [5]
    monkeypatch.setattr(group_session, "_RENEWAL_MS", 0)
    with Consumer(broker.bootstrap, group="g", auto_commit_ms=1) as consumer:
        consumer.assign({LOGS: AtOffset(5)})
        polls_until_committed(consumer, broker, 4)


def a_session(cluster: Cluster, begin: group_session.Begin) -> GroupSession:
    """The session of a member with an assigned partition that has no position yet."""
    partitions = AssignedPartitions(
        cluster,
        FetchLimits(0, 0, 1, 1),
        read_committed=False,
        offset_reset=OffsetReset.EARLIEST,
        max_decompressed_bytes=1,
    )
    found = GroupSession(
        cluster, "g", partitions, begin, Wakeup(), auto_commit_ms=None, require_stable=False
    )
    found.owned = frozenset({LOGS})
    found._without_position.add(LOGS)
    return found


def test_finding_a_position_is_retried_with_backoff_until_the_timeout(
    broker: ScriptedBroker,
) -> None:
    tries = 0

    def begin(_: object) -> None:
        nonlocal tries
        tries += 1
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "not yet")

    with Cluster(broker.bootstrap, timeout_ms=200) as cluster:
        with pytest.raises(KafkaError, match="not yet"):
            a_session(cluster, begin).ensure_positions()
        assert tries < 8, "each pause takes 25 ms at least"


@pytest.mark.parametrize(
    "failure",
    [KafkaError(ErrorCode.LEADER_NOT_AVAILABLE), NoSuchTopic("a broker has not heard of it yet")],
)
def test_finding_a_position_is_retried_until_it_succeeds(
    broker: ScriptedBroker, failure: KafkaError
) -> None:
    answers = iter([failure, None])

    def begin(_: object) -> None:
        if (error := next(answers)) is not None:
            raise error

    with Cluster(broker.bootstrap) as cluster:
        a_session(cluster, begin).ensure_positions()
    assert list(answers) == []
