"""The fetchers of a broker against leaders whose responses are scripted."""

import pytest

from sawlog.broker.replica_fetcher import FIRST_BACKOFF_MS, NO_SESSION_DELAY_MS, STREAM_DELAY_MS
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch, PartitionIndex, TopicId, TopicPartition
from sawlog.core.ports import DiskError, DiskFull
from sawlog.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sawlog.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sawlog.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset as EpochEnd,
)
from sawlog.protocol.messages.offset_for_leader_epoch_response import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sawlog.protocol.peers import PeerError
from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import build_batch
from sawlog.replication.follower import QUIET_FLUSH_MS
from sawlog.replication.replica import Replica
from sawlog.simulation.simulated_disk import SimulatedFile
from support.broker.images import OTHER, change_partition, join_brokers
from support.broker.requests import machine_with_topic
from support.logged import fields_of
from support.replication.scripted_leader import (
    FLUSH_MS,
    LEADER,
    NODE,
    OTHER_LEADER,
    SESSION,
    TOPIC,
    TOPIC_ID,
    FollowingBroker,
    data,
    fetched,
    forgotten,
)
from support.storage.logs import records

BACKOFF_MS = 1_000


def batch(offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"v") -> bytes:
    built = build_batch(records(count, value=value))
    stamp(memoryview(built), offset, epoch)
    return bytes(built)


def following(*indexes: int, **settings: str) -> tuple[FollowingBroker, list[Replica]]:
    """A broker that follows these partitions and has a session that is up to date."""
    broker = FollowingBroker(**settings)
    replicas = [broker.follow(index) for index in indexes]
    broker.answer(data(indexes[0]))
    while len(broker.requests) != 1 or fetched(broker.requests[0]):
        broker.answer()
    return broker, replicas


def diverging(index: int, epoch: int, end_offset: int) -> PartitionData:
    found = data(index)
    found.diverging_epoch = EpochEndOffset(epoch, end_offset)
    return found


# Requests and sessions


def test_the_first_fetch_opens_a_session_and_names_the_replica() -> None:
    broker = FollowingBroker(
        replica_fetch_wait_max_ms="300",
        replica_fetch_min_bytes="10",
        replica_fetch_max_bytes="2000",
        replica_fetch_response_max_bytes="5000",
    )
    broker.follow(4, epoch=6)
    [request] = broker.requests
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (NODE, 101)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (300, 10, 5000)
    assert request.topics[0].topic_id == TOPIC_ID
    wanted = fetched(request)[4]
    assert (wanted.current_leader_epoch, wanted.last_fetched_epoch) == (6, -1)
    assert (wanted.fetch_offset, wanted.flushed_offset, wanted.log_start_offset) == (0, 0, 0)
    assert wanted.partition_max_bytes == 2000


def test_with_flush_policy_os_no_flushed_offset_is_sent() -> None:
    broker = FollowingBroker(flush_policy="os")
    broker.follow()
    assert fetched(broker.requests[0])[0].flushed_offset == -1


def test_a_later_fetch_of_the_session_has_the_changed_partitions_only() -> None:
    broker, replicas = following(0, 1)
    broker.answer(data(1, batch(0, 3), watermark=2))
    [request] = broker.requests
    assert request.session_id == SESSION
    assert {index: wanted.fetch_offset for index, wanted in fetched(request).items()} == {1: 3}
    assert replicas[1].high_watermark == 2
    broker.answer()
    assert fetched(broker.requests[0]) == {}


def test_session_epochs_rise_by_one() -> None:
    broker, _ = following(0)
    epochs = []
    for _ in range(3):
        epochs.append(broker.requests[0].session_epoch)
        broker.answer()
    assert epochs == list(range(epochs[0], epochs[0] + 3))


def test_partitions_that_are_not_followed_any_more_are_forgotten() -> None:
    broker, replicas = following(0, 1)
    broker.fetchers.closed(replicas[1].name)
    broker.schedule.run_for(0)
    assert forgotten(broker.requests[1]) == [1]
    broker.answer()
    broker.answer(data(1, batch(0)))
    assert replicas[1].log.end_offset == 0


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ],
)
def test_after_a_session_error_the_next_fetch_opens_a_session(
    error: ErrorCode, session_id: int
) -> None:
    broker, _ = following(0, 1)
    broker.answer(session_id=0, error=error)
    [request] = broker.requests
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert sorted(fetched(request)) == [0, 1]


def test_session_errors_in_succession_are_delayed() -> None:
    broker, _ = following(0)
    error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    broker.answer(session_id=0, error=error)
    broker.answer(session_id=0, error=error)
    assert broker.requests == []
    broker.schedule.run_for(BACKOFF_MS)
    assert len(broker.requests) == 1


def test_a_leader_without_sessions_gets_all_partitions_each_time() -> None:
    broker = FollowingBroker()
    broker.follow()
    for _ in range(3):
        assert sorted(fetched(broker.requests[0])) == [0]
        broker.answer(data(0), session_id=0)
        assert broker.requests == []
        broker.schedule.run_for(NO_SESSION_DELAY_MS)


def test_partitions_with_data_come_last_in_the_next_full_fetch() -> None:
    broker, _ = following(0, 1, 2)
    broker.answer(data(0, batch(0)), data(1, batch(0)))
    broker.answer(session_id=0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert list(fetched(broker.requests[0])) == [2, 0, 1]


# Responses that come too late


def test_a_response_to_a_fetch_of_an_earlier_epoch_changes_nothing() -> None:
    broker, [replica] = following(0)
    broker.follow(0, epoch=1)
    broker.answer(data(0, batch(0), watermark=1))
    assert (replica.log.end_offset, replica.high_watermark) == (0, 0)
    assert fetched(broker.requests[0])[0].current_leader_epoch == 1
    broker.answer(data(0, batch(0), watermark=1))
    assert (replica.log.end_offset, replica.high_watermark) == (1, 1)


def test_a_response_after_a_change_of_the_leader_changes_nothing() -> None:
    broker, [replica] = following(0)
    old = broker.connection
    _, done = old.requests[0]
    broker.follow(0, epoch=1, leader=OTHER_LEADER)
    assert old.is_closed  # and the callback was called with an error
    assert len(broker.peers.open_to(f"host{OTHER_LEADER}")[0].requests) == 1
    done(PeerError("late"))
    assert replica.log.end_offset == 0


def test_a_response_for_another_topic_of_that_name_changes_nothing() -> None:
    broker, [replica] = following(0)
    _, done = broker.connection.requests[0]
    other = FetchableTopicResponse(TOPIC, TopicId(bytes(16)), [data(0, batch(0))])
    done(FetchResponse(session_id=SESSION, responses=[other]))
    assert replica.log.end_offset == 0


def test_a_response_to_a_fetch_from_before_a_truncation_changes_nothing() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0) + batch(1)))
    assert replica.log.end_offset == 2
    broker.schedule.run_for(QUIET_FLUSH_MS + FLUSH_MS)  # the flush sends a second request
    assert len(broker.requests) == 2
    broker.answer(diverging(0, 0, 1))
    assert replica.log.end_offset == 1
    broker.answer(data(0, batch(2)))  # of the fetch at offset 2
    assert replica.log.end_offset == 1
    assert fetched(broker.requests[-1])[0].fetch_offset == 1


# Truncation and offsets out of range


def test_a_diverging_epoch_truncates_and_fetches_again() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0) + batch(1, epoch=0)))
    broker.follow(0, epoch=1)
    wanted = fetched(broker.requests[-1])[0]
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 0)
    broker.answer()
    broker.answer(diverging(0, 0, 1))
    assert replica.log.end_offset == 1
    assert fetched(broker.requests[0])[0].fetch_offset == 1


def test_a_partition_whose_truncation_is_refused_waits_for_the_next_epoch() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0) + batch(1), watermark=2))
    broker.answer(diverging(0, 0, 1))
    assert replica.log.end_offset == 2
    assert broker.fetchers.failed == ["t-0"]
    broker.schedule.run_for(10 * BACKOFF_MS)
    assert broker.requests == []
    broker.follow(0, epoch=1)
    assert broker.fetchers.failed == []
    assert fetched(broker.requests[0])[0].current_leader_epoch == 1


def answer_offsets(broker: FollowingBroker, start: int, end: int) -> None:
    """Answer the questions for the leader's log start and log end offset."""
    connection = broker.peers.open_to(f"host{LEADER}")[1]
    earliest = ListOffsetsPartitionResponse(0, offset=start)
    connection.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, [earliest])]))
    latest = EpochEnd(partition=0, leader_epoch=0, end_offset=end)
    connection.answer(
        OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, [latest])])
    )
    broker.schedule.run_for(0)


def test_an_offset_before_the_leaders_log_restarts_the_log_there() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0)))
    broker.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert broker.requests == []
    answer_offsets(broker, 10, 20)
    assert (replica.log.start_offset, replica.log.end_offset) == (10, 10)
    assert fetched(broker.requests[0])[0].fetch_offset == 10


def test_an_offset_beyond_the_leaders_log_truncates_to_its_end() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0) + batch(1)))
    broker.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    answer_offsets(broker, 0, 1)
    assert replica.log.end_offset == 1


def test_an_offset_that_is_in_range_meanwhile_is_fetched_after_the_back_off() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    answer_offsets(broker, 0, 5)
    assert broker.requests == []
    broker.schedule.run_for(BACKOFF_MS)
    assert len(broker.requests) == 1
    assert replica.log.end_offset == 0


def test_offsets_that_arrive_after_a_change_of_epoch_change_nothing() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    broker.follow(0, epoch=1)
    answer_offsets(broker, 10, 20)
    assert replica.log.end_offset == 0


# Errors


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_partition_with_an_error_is_left_out_for_the_back_off(error: ErrorCode) -> None:
    broker, replicas = following(0, 1)
    broker.answer(data(0, error=error), data(1, batch(0)))
    [request] = broker.requests
    assert forgotten(request) == [0]
    assert replicas[1].log.end_offset == 1
    is_behind = error is not ErrorCode.KAFKA_STORAGE_ERROR
    broker.schedule.run_for((FIRST_BACKOFF_MS if is_behind else BACKOFF_MS) - 1)
    assert not any(0 in fetched(request) for request in broker.requests)
    broker.schedule.run_for(1)
    broker.answer()
    assert any(0 in fetched(request) for request in broker.requests)


@pytest.mark.parametrize(("code", "name"), [(56, "KAFKA_STORAGE_ERROR"), (9_999, "9999")])
def test_the_error_of_a_partition_is_logged_by_its_name(
    code: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker, _ = following(0)
    broker.answer(data(0, error=code))
    assert fields_of(caplog, "partition not fetched")["error"] == name


def test_the_back_off_doubles_while_the_leader_refuses() -> None:
    broker, _ = following(0)
    for delay_ms in (20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS):
        broker.answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        broker.schedule.run_for(delay_ms - 1)
        assert broker.requests == []
        broker.schedule.run_for(1)
        assert len(broker.requests) == 1
    broker.answer(data(0))
    broker.answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    broker.schedule.run_for(FIRST_BACKOFF_MS)
    assert len(broker.requests) == 1


def test_a_new_epoch_ends_the_back_off() -> None:
    broker, _ = following(0)
    broker.answer(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert broker.requests == []
    broker.follow(0, epoch=1)
    assert fetched(broker.requests[0])[0].current_leader_epoch == 1


def test_a_full_disk_delays_the_partition_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, [replica] = following(0)

    def full(file: SimulatedFile, _: object) -> int:
        raise DiskFull(file.path, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedFile, "append", full)
        broker.answer(data(0, batch(0)))
    assert (replica.log.end_offset, broker.requests) == (0, [])
    broker.schedule.run_for(BACKOFF_MS)
    broker.answer(data(0, batch(0)))
    assert replica.log.end_offset == 1


def test_a_corrupt_batch_delays_the_partition() -> None:
    broker, [replica] = following(0)
    bad = bytearray(batch(0))
    bad[-1] ^= 1
    broker.answer(data(0, bytes(bad)))
    assert (replica.log.end_offset, broker.requests) == (0, [])
    broker.schedule.run_for(BACKOFF_MS)
    assert len(broker.requests) == 1


# Connections


def test_after_lost_connections_a_new_session_is_opened_after_a_growing_back_off() -> None:
    broker, _ = following(0)
    for delay_ms in (20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS):
        broker.connection.answer(PeerError("disconnected"))
        broker.schedule.run_for(delay_ms - 1)
        assert broker.requests == []
        broker.schedule.run_for(1)
    [request] = broker.requests
    assert (request.session_id, request.session_epoch) == (SESSION, 0)
    assert sorted(fetched(request)) == [0]


def test_a_leader_that_moved_is_fetched_from_at_its_new_address() -> None:
    broker, [replica] = following(0)
    broker.set_brokers(leader_port=9999)
    broker.fetchers.brokers_changed()
    broker.schedule.run_for(0)
    assert broker.connection.address == (f"host{LEADER}", 9999)
    assert broker.requests[0].session_epoch == 0
    broker.answer(data(0, batch(0)))
    assert replica.log.end_offset == 1


def test_a_leader_that_is_not_alive_is_fetched_from_when_it_is_back() -> None:
    broker = FollowingBroker()
    broker.set_brokers(leader_port=None)
    broker.follow()
    assert broker.peers.connections == []
    broker.set_brokers(leader_port=9092)
    broker.fetchers.brokers_changed()
    broker.schedule.run_for(0)
    assert len(broker.requests) == 1


def test_the_last_partition_of_a_leader_closes_its_connections() -> None:
    broker, [replica] = following(0)
    broker.fetchers.closed(replica.name)
    assert broker.peers.open_to(f"host{LEADER}") == []


# Flushes


def test_closed_fetchers_follow_no_leader_of_a_later_epoch() -> None:
    broker, _ = following(0, 1)
    broker.fetchers.close()
    broker.follow(0, epoch=1)
    broker.follow(1, epoch=1, leader=OTHER_LEADER)
    assert broker.peers.open_to(f"host{LEADER}") == []
    assert broker.peers.open_to(f"host{OTHER_LEADER}") == []


def test_a_broker_stops_to_fetch_when_its_data_directory_goes_offline() -> None:
    machine = machine_with_topic()
    components = machine.broker.components
    join_brokers(machine, OTHER)
    change_partition(machine, leader=OTHER, leader_epoch=LeaderEpoch(1))
    totals = components.fetchers.totals[OTHER]
    machine.schedule.run_for(10_000)
    assert totals.requests > 1, "the leader does not answer, and is asked again"
    components.directory.fail(DiskError("a file", "no such device"))
    machine.schedule.run_for(0)
    before = totals.requests
    machine.schedule.run_for(10_000)
    assert totals.requests == before


def test_a_flush_that_ends_while_a_fetch_is_parked_sends_another_fetch() -> None:
    broker, _ = following(0)
    broker.answer(data(0, batch(0), is_awaited=True))
    assert len(broker.requests) == 1
    broker.schedule.run_for(FLUSH_MS)
    parked, second = broker.requests
    assert second.session_epoch == parked.session_epoch + 1
    assert [fetched(one)[0].flushed_offset for one in (parked, second)] == [0, 1]
    assert [fetched(one)[0].fetch_offset for one in (parked, second)] == [1, 1]


def test_records_that_nobody_waits_for_are_flushed_later() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0)))
    broker.schedule.run_for(QUIET_FLUSH_MS + FLUSH_MS - 1)
    assert (replica.log.flushed_offset, len(broker.requests)) == (0, 1)
    broker.schedule.run_for(1)
    assert (replica.log.flushed_offset, len(broker.requests)) == (1, 2)


def test_a_response_without_records_can_ask_for_the_flush() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0)))
    broker.answer(data(0, is_awaited=True))
    broker.schedule.run_for(FLUSH_MS)
    assert replica.log.flushed_offset == 1


def test_nothing_is_sent_behind_a_parked_fetch_if_nothing_changed() -> None:
    broker, [replica] = following(0)
    assert replica.follower is not None
    replica.follower.flushed()
    broker.schedule.run_for(0)
    assert len(broker.requests) == 1


def test_at_most_two_fetches_are_in_flight() -> None:
    broker, replicas = following(0, 1, 2)
    for index in (0, 1, 2):
        broker.answer(data(index, batch(0), is_awaited=True))
        broker.schedule.run_for(FLUSH_MS)
    assert all(replica.log.flushed_offset == 1 for replica in replicas)
    for epoch in range(1, 5):
        broker.follow(0, epoch=epoch)
    assert len(broker.requests) == 2
    broker.answer()
    assert fetched(broker.requests[-1])[0].current_leader_epoch == 4


def test_the_second_fetch_waits_for_the_session() -> None:
    broker = FollowingBroker()
    broker.follow(0)
    broker.follow(1)
    assert len(broker.requests) == 1
    broker.answer(data(0))
    assert sorted(fetched(broker.requests[0])) == [1]


def test_within_a_stream_of_data_a_flush_waits_for_the_next_response() -> None:
    broker, [replica] = following(0)
    broker.answer(data(0, batch(0, value=bytes(100_000)), is_awaited=True))
    broker.schedule.run_for(FLUSH_MS)
    assert replica.log.flushed_offset == 1
    assert len(broker.requests) == 1
    broker.answer(data(0, batch(1)))
    assert fetched(broker.requests[0])[0].flushed_offset == 1


def test_a_stream_that_stops_delays_a_flush_for_a_moment_only() -> None:
    broker, _ = following(0)
    broker.answer(data(0, batch(0, value=bytes(100_000)), is_awaited=True))
    broker.schedule.run_for(FLUSH_MS + STREAM_DELAY_MS - 1)
    assert len(broker.requests) == 1
    broker.schedule.run_for(1)
    assert [fetched(one)[0].flushed_offset for one in broker.requests] == [0, 1]


# What the metrics tell


def test_the_lag_is_what_the_leader_has_committed_and_this_broker_has_not() -> None:
    broker, _ = following(0, 1)
    broker.answer(data(0, batch(0), watermark=7), data(1, batch(0), watermark=3))
    assert broker.fetchers.max_lag == 6
    broker.fetchers.closed(TopicPartition(TOPIC, PartitionIndex(0)))
    assert broker.fetchers.max_lag == 2


def test_requests_and_bytes_are_counted_by_leader_also_after_it_is_not_followed_any_more() -> None:
    broker, _ = following(0)
    records = batch(0)
    broker.answer(data(0, records, watermark=1))
    totals = broker.fetchers.totals[LEADER]
    requests = totals.requests
    assert (requests, totals.bytes) == (3, len(records))
    broker.follow(0, epoch=1, leader=OTHER_LEADER)
    assert broker.fetchers.totals[LEADER] is totals
    assert broker.fetchers.totals[OTHER_LEADER].requests == 1
    broker.follow(0, epoch=2, leader=LEADER)
    assert totals.requests == requests + 1
