"""Fetch sessions: continuation, incremental responses, eviction."""

import pytest

from sawlog.broker.fetch_sessions import EVICTION_MS, FetchSessions, next_epoch
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from sawlog.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from sawlog.simulation.schedule import Schedule, SeededRandom

VERSION = 12


def sessions(slots: int = 10, seed: int = 1) -> tuple[FetchSessions, Schedule]:
    schedule = Schedule(seed)
    return FetchSessions(schedule, SeededRandom(seed), slots), schedule


def request(*partitions: int, session: int = 0, epoch: int = 0, offset: int = 0) -> FetchRequest:
    topic = FetchTopic(
        topic="t",
        partitions=[
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
            for index in partitions
        ],
    )
    return FetchRequest(
        session_id=session, session_epoch=epoch, topics=[topic] if partitions else []
    )


def data_of(index: int, watermark: int, error: int = 0) -> PartitionData:
    return PartitionData(partition_index=index, high_watermark=watermark, error_code=error)


def open_session(
    cache: FetchSessions, *partitions: int, watermark: int = 5, replica_id: int = -1
) -> int:
    message = request(*partitions)
    message.replica_id = replica_id
    context = cache.open(message, VERSION)
    context.select([(p, data_of(p.index, watermark), 0) for p in context.partitions])
    return context.open_session(VERSION)


def test_full_fetch_opens_a_session_for_the_next_fetch() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0, 1)
    context = cache.open(request(session=session, epoch=1), VERSION)
    assert [p.index for p in context.partitions] == [0, 1]


def test_incremental_response_has_only_news() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0, 1, 2)
    context = cache.open(request(session=session, epoch=1), VERSION)
    zero, one, two = context.partitions
    chosen = context.select(
        [(zero, data_of(0, 5), 0), (one, data_of(1, 6), 0), (two, data_of(2, 5), 70)]
    )
    assert [partition.index for partition, _, _ in chosen] == [1, 2]


def test_partition_with_data_is_last_in_the_next_fetch() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0, 1)
    context = cache.open(request(session=session, epoch=1), VERSION)
    zero, one = context.partitions
    context.select([(zero, data_of(0, 9), 100), (one, data_of(1, 5), 0)])
    again = cache.open(request(session=session, epoch=2), VERSION)
    assert [p.index for p in again.partitions] == [1, 0]


def test_after_a_diverging_epoch_the_high_watermark_is_news_again() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    context = cache.open(request(0, session=session, epoch=1, offset=9), VERSION)
    diverging = data_of(0, 6)
    diverging.diverging_epoch = EpochEndOffset(1, 4)
    assert len(context.select([(context.partitions[0], diverging, 0)])) == 1
    context = cache.open(request(0, session=session, epoch=2, offset=4), VERSION)
    assert len(context.select([(context.partitions[0], data_of(0, 6), 0)])) == 1


def test_in_a_new_leader_epoch_the_high_watermark_is_news_again() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0, watermark=5)
    message = request(0, session=session, epoch=1)
    message.topics[0].partitions[0].current_leader_epoch = 3
    context = cache.open(message, VERSION)
    assert len(context.select([(context.partitions[0], data_of(0, 5), 0)])) == 1
    context = cache.open(request(session=session, epoch=2), VERSION)
    assert context.select([(context.partitions[0], data_of(0, 5), 0)]) == []


def test_end_of_an_error_is_news() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    broken = cache.open(request(session=session, epoch=1), VERSION)
    assert broken.select([(broken.partitions[0], data_of(0, -1, error=6), 0)])
    healed = cache.open(request(session=session, epoch=2), VERSION)
    assert healed.select([(healed.partitions[0], data_of(0, 5), 0)])


def test_session_follows_added_changed_and_forgotten_partitions() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0, 1)
    change = request(0, 7, session=session, epoch=1, offset=42)
    change.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[1])]
    context = cache.open(change, VERSION)
    assert [(p.index, p.fetch_offset) for p in context.partitions] == [(0, 42), (7, 42)]


def test_session_without_partitions_is_closed() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    last = request(session=session, epoch=1)
    last.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert cache.open(last, VERSION).partitions == []
    assert len(cache) == 0


def test_final_epoch_closes_the_session_and_opens_none() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    context = cache.open(request(0, session=session, epoch=-1), VERSION)
    assert context.open_session(VERSION) == 0
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("session_offset", "epoch", "version", "code"),
    [
        (1, 1, VERSION, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_wrong_session_id_or_epoch_is_rejected(
    session_offset: int, epoch: int, version: int, code: ErrorCode
) -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    with pytest.raises(KafkaError) as refused:
        cache.open(request(session=session + session_offset, epoch=epoch), version)
    assert refused.value.code is code


def test_second_fetch_of_an_epoch_is_rejected() -> None:
    cache, _ = sessions()
    session = open_session(cache, 0)
    slow = cache.open(request(session=session, epoch=1), VERSION)
    cache.open(request(session=session, epoch=2), VERSION)
    with pytest.raises(KafkaError) as refused:
        slow.select([(slow.partitions[0], data_of(0, 8), 10)])
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_full_cache_evicts_no_recent_session() -> None:
    cache, _ = sessions(slots=1)
    assert open_session(cache, 0, 1) != 0
    assert open_session(cache, 0) == 0


def test_stale_session_is_evicted() -> None:
    cache, schedule = sessions(slots=1)
    stale = open_session(cache, 0, 1)
    schedule.run_for(EVICTION_MS + 1)
    fresh = open_session(cache, 0)
    assert fresh not in (0, stale)
    assert len(cache) == 1


def test_old_session_in_use_is_evicted_for_a_larger_one() -> None:
    cache, schedule = sessions(slots=1)
    small = open_session(cache, 0)
    schedule.run_for(EVICTION_MS)
    cache.open(request(session=small, epoch=1), VERSION)  # in use: not stale
    assert open_session(cache, 0, 1) == 0
    schedule.run_for(1)
    assert open_session(cache, 0, 1) != 0


def test_a_consumer_does_not_evict_a_follower() -> None:
    cache, schedule = sessions(slots=1)
    follower = open_session(cache, 0, replica_id=2)
    schedule.run_for(EVICTION_MS)
    cache.open(request(session=follower, epoch=1), VERSION)  # in use: not stale
    schedule.run_for(1)
    assert open_session(cache, 0, 1, 2) == 0
    assert open_session(cache, 0, 1, 2, replica_id=3) != 0, "a larger follower may"


def test_a_follower_evicts_the_smallest_consumer() -> None:
    cache, _ = sessions(slots=3)
    other = open_session(cache, 0, replica_id=3)
    large, small = open_session(cache, 0, 1, 2), open_session(cache, 0, 1)
    assert open_session(cache, 0, replica_id=2) != 0
    for kept in (other, large):
        cache.open(request(session=kept, epoch=1), VERSION)
    with pytest.raises(KafkaError):
        cache.open(request(session=small, epoch=1), VERSION)


def test_a_follower_that_names_itself_in_the_replica_state_is_preferred() -> None:
    cache, _ = sessions(slots=1)
    open_session(cache, 0)
    message = request(0)
    message.replica_state = ReplicaState(2, 17)
    assert cache.open(message, 15).open_session(15) != 0


def test_epochs_wrap_around_to_one() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(2**31 - 1) == 1
    assert next_epoch(-1) == -1
