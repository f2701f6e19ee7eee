"""A follower on a simulated disk: appends, truncations, watermark and start offset."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.replication.follower import Follower, TruncationRefused
from sawlog.storage.leader_epochs import EpochEntry
from sawlog.storage.log_config import LogConfig
from support.logged import fields_of
from support.replication.replicated_logs import (
    Copy,
    assert_identical,
    catch_up,
    copies,
    diverging_epoch,
    fetch_once,
)
from support.storage.logs import headers_in, read

SMALL_SEGMENTS = LogConfig(segment_bytes=200)


def bytes_of(copy: Copy, offset: int = 0) -> memoryview:
    piece = read(copy.log, offset)
    assert piece is not None
    return memoryview(bytearray(piece.read()))


def give(follower: Follower, data: memoryview) -> int:
    """Give a follower these records; the leader has committed none."""
    return follower.append(data, leader_high_watermark=0, leader_start_offset=0, is_awaited=False)


def test_batches_are_appended_as_they_are() -> None:
    leader, replica = copies(2)
    leader.write(3, b"a", b"b")
    leader.write(5, b"c")
    catch_up(leader.log, replica.follow(5))
    assert replica.values == [b"a", b"b", b"c"]
    assert bytes(bytes_of(replica)) == bytes(bytes_of(leader))
    assert_identical(leader.log, replica.log)


def test_a_fetch_carries_the_epoch_of_the_last_batch() -> None:
    leader, replica = copies(2)
    leader.write(3, b"a")
    leader.lead(7)
    assert replica.follow(7).position[:2] == (0, -1)
    catch_up(leader.log, replica.follow(7))
    assert replica.follow(7).position[:2] == (1, 3)


def test_an_epoch_in_which_a_deposed_leader_wrote_nothing_is_forgotten() -> None:
    leader, replica = copies(2)
    leader.write(1, b"a", b"b")
    catch_up(leader.log, replica.follow(1))
    leader.write(1, b"c")
    replica.lead(2)  # elected without c; the old leader is elected again before it wrote
    catch_up(leader.log, replica.follow(3))
    assert replica.log.epochs.entries == (EpochEntry(1, 0),)
    assert_identical(leader.log, replica.log)


def test_the_high_watermark_is_the_leaders_up_to_the_log_end() -> None:
    leader, replica = copies(2)
    leader.write(0, b"a", b"b", b"c")
    leader.commit(3)
    follower = replica.follow(0)
    first = headers_in(leader.log)[0].size
    fetch_once(leader.log, follower, max_bytes=first)
    assert replica.log.high_watermark == 1
    catch_up(leader.log, follower)
    assert replica.log.high_watermark == 3


def test_the_high_watermark_does_not_follow_a_leader_that_knows_less() -> None:
    leader, replica = copies(2)
    leader.write(0, b"a", b"b")
    leader.commit(2)
    catch_up(leader.log, replica.follow(0))
    leader.log.set_high_watermark(1)  # as after a restart from an older checkpoint
    fetch_once(leader.log, replica.follow(1))
    assert replica.log.high_watermark == 2


def test_a_corrupt_batch_ends_the_append() -> None:
    leader, replica = copies(2)
    leader.write(0, b"a", b"b")
    data = bytes_of(leader)
    data[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        give(replica.follow(0), data)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert replica.values == [b"a"]


def test_a_batch_of_a_later_epoch_than_the_leaders_is_refused() -> None:
    leader, replica = copies(2)
    leader.write(4, b"a")
    with pytest.raises(KafkaError) as refused:
        give(replica.follow(3), bytes_of(leader))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert replica.log.end_offset == 0


def test_batches_that_are_in_the_log_are_skipped() -> None:
    leader, replica = copies(2)
    leader.write(0, b"a", b"b")
    follower = replica.follow(0)
    give(follower, bytes_of(leader))
    leader.write(0, b"c")
    appended = give(follower, bytes_of(leader))
    assert appended == headers_in(leader.log)[2].size
    assert_identical(leader.log, replica.log)


def test_an_incomplete_last_batch_is_fetched_again() -> None:
    leader, replica = copies(2)
    leader.write(0, b"a", b"b")
    follower = replica.follow(0)
    give(follower, bytes_of(leader)[:-1])
    assert replica.values == [b"a"]
    catch_up(leader.log, follower)
    assert_identical(leader.log, replica.log)


def test_deleted_records_of_the_leader_are_deleted_here() -> None:
    leader, replica = copies(2, SMALL_SEGMENTS)
    leader.write(0, *(b"%d" % number for number in range(10)))
    leader.commit(10)
    follower = replica.follow(0)
    catch_up(leader.log, follower)
    leader.log.advance_start(7)
    catch_up(leader.log, follower)
    assert replica.log.start_offset == 7
    assert len(replica.log.segments) == len(leader.log.segments)


def test_a_log_that_ends_before_the_leaders_begins_is_restarted_there() -> None:
    leader, replica = copies(2, SMALL_SEGMENTS)
    leader.write(0, *(b"%d" % number for number in range(10)))
    leader.commit(10)
    follower = replica.follow(0)
    fetch_once(leader.log, follower, max_bytes=100)
    leader.log.advance_start(8)
    assert replica.log.end_offset < 8
    catch_up(leader.log, follower)
    assert (replica.log.start_offset, replica.log.high_watermark) == (8, 10)
    assert_identical(leader.log, replica.log)
    replica.flush()
    replica.recover()
    assert_identical(leader.log, replica.log)


def test_a_leader_that_begins_inside_a_batch_is_followed_from_that_batch_on() -> None:
    leader, replica = copies(2)
    leader.append(10)
    leader.commit(10)
    leader.log.advance_start(4)
    catch_up(leader.log, replica.follow(0))
    log = replica.log
    assert (log.start_offset, log.end_offset, log.high_watermark) == (4, 10, 10)
    assert log.segments.base_offset == 0


def test_restarted_logs_keep_no_producers_and_no_snapshots() -> None:
    (replica,) = copies(1)
    replica.append(1, producer_id=7, producer_epoch=0, base_sequence=0)
    replica.checkpoint()
    assert replica.log.producers.snapshot_offsets
    replica.log.restart_at(1)
    assert replica.log.producers.snapshot_offsets == []
    assert not replica.log.producer_states.states
    replica.recover()
    assert (replica.log.start_offset, replica.log.end_offset) == (1, 1)
    assert not replica.log.producer_states.states


def test_power_loss_after_a_restart_of_the_log_finds_it_empty_at_its_new_start() -> None:
    for seed in range(20):
        replica = Copy(SMALL_SEGMENTS, seed=seed)
        replica.write(0, *(b"%d" % number for number in range(10)))
        replica.checkpoint()
        replica.log.restart_at(50)
        replica.lose_power()
        replica.open()
        assert (replica.log.start_offset, replica.log.end_offset) == (50, 50)


# Truncation


def test_the_first_fetch_of_an_epoch_truncates_what_the_new_leader_does_not_have() -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(0, b"a")
    replica.write(0, b"lost")
    leader.write(1, b"b")
    catch_up(leader.log, replica.follow(1))
    assert replica.values == [b"a", b"b"]
    assert_identical(leader.log, replica.log)


def test_truncation_goes_to_the_smaller_end_of_the_diverging_epoch() -> None:
    """The example of the module: (0, 0) (1, 10) up to 15 against (0, 0) (2, 12) up to 20."""
    leader, replica = copies(2)
    for copy, length in ((leader, 12), (replica, 10)):
        copy.write(0, *(b"%d" % number for number in range(length)))
    replica.write(1, *[b"x"] * 5)
    leader.write(2, *[b"y"] * 8)
    follower = replica.follow(2)
    diverging = diverging_epoch(leader.log, follower.position)
    assert diverging == EpochEntry(0, 12)
    follower.truncate(diverging)
    assert follower.position[:2] == (10, 0)
    catch_up(leader.log, follower)
    assert_identical(leader.log, replica.log)


def test_truncation_is_refused_below_the_high_watermark() -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(0, b"a")
    replica.write(0, b"committed")
    replica.commit(2)
    leader.write(1, b"b")
    with pytest.raises(TruncationRefused, match=r"below 1, .* below 2"):
        catch_up(leader.log, replica.follow(1))
    assert replica.values == [b"a", b"committed"]
    assert replica.log.high_watermark == 2


def test_an_unclean_election_before_the_own_last_record_excuses_no_truncation() -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(3, b"a")
    replica.write(3, b"committed")
    replica.commit(2)
    leader.write(4, b"b")
    with pytest.raises(TruncationRefused):
        catch_up(leader.log, replica.follow(4, unclean_epoch=3))
    assert replica.values == [b"a", b"committed"]


@pytest.mark.parametrize(("commits_on_flush", "unclean_epoch"), [(True, 1), (False, -1)])
def test_after_an_unclean_election_committed_records_are_truncated(
    commits_on_flush: bool, unclean_epoch: int, caplog: pytest.LogCaptureFixture
) -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(0, b"a")
    replica.write(0, b"lost")
    replica.write(0, b"not committed")
    replica.commit(2)
    replica.checkpoint()
    leader.write(1, b"b", b"c")
    follower = replica.follow(1, commits_on_flush=commits_on_flush, unclean_epoch=unclean_epoch)
    catch_up(leader.log, follower)
    assert_identical(leader.log, replica.log)
    assert replica.log.high_watermark == 1
    warned = fields_of(caplog, "committed records truncated")
    assert (warned["from_offset"], warned["removed"]) == (1, 2)
    replica.flush()
    replica.recover()  # before the next checkpoint
    assert replica.log.high_watermark == 1


def test_an_unclean_election_is_named_where_the_high_watermark_was_not_known_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(0, b"a")
    replica.write(0, b"lost")
    leader.write(1, b"b")
    catch_up(leader.log, replica.follow(1, unclean_epoch=1))
    assert fields_of(caplog, "records truncated after an unclean election")["removed"] == 1


def test_truncation_lowers_flushed_offset_and_producer_state() -> None:
    leader, replica = copies(2)
    for copy in (leader, replica):
        copy.write(0, b"a")
    replica.append(1, producer_id=7, producer_epoch=0, base_sequence=0)
    replica.checkpoint()
    assert replica.log.flushed_offset == 2
    leader.write(1, b"b")
    follower = replica.follow(1)
    fetch_once(leader.log, follower)
    assert follower.position[:3] == (1, 0, 1)
    assert replica.directory.recovery_point(replica.log) == 1
    assert 7 not in replica.log.producer_states.states


# Histories


def test_kip_101_a_restarted_follower_keeps_what_is_committed() -> None:
    """Truncation to the own high watermark lost a record here: B has m2, but has not heard yet that
    it is committed, restarts, and becomes the leader before it fetched again."""
    a, b = copies(2)
    a.lead(0)
    a.write(0, b"m1", b"m2")
    catch_up(a.log, b.follow(0))
    b.flush()
    a.commit(2)
    assert b.log.high_watermark == 0
    b.recover()
    follower = b.follow(0)  # it truncates nothing until a leader has answered
    assert follower.position.fetch_offset == 2
    b.lead(1)
    catch_up(b.log, a.follow(1))
    assert a.values == b.values == [b"m1", b"m2"]


def test_kip_101_logs_do_not_diverge_after_both_lost_power() -> None:
    """A has m1 and m2, B only m1. B leads and writes m3 at the offset of m2."""
    a, b = copies(2)
    a.write(0, b"m1")
    catch_up(a.log, b.follow(0))
    a.commit(1)
    a.write(0, b"m2")
    b.lead(1)
    b.write(1, b"m3")
    catch_up(b.log, a.follow(1))
    assert a.values == b.values == [b"m1", b"m3"]
    assert_identical(a.log, b.log)


def test_kip_279_fast_leader_failovers() -> None:
    """A and B disagree about several epochs, of which each has some that the other lacks: one
    answer of the leader is not enough."""
    a, b = copies(2)
    for copy in (a, b):
        copy.write(0, b"0", b"1")
    a.write(1, b"a2")
    a.write(4, b"a3", b"a4")
    b.write(2, b"b2", b"b3", b"b4")
    b.write(3, b"b5")
    b.write(5, b"b6")
    follower = a.follow(5)
    steps = []
    while (diverging := diverging_epoch(b.log, follower.position)) is not None:
        follower.truncate(diverging)
        steps.append((diverging, follower.position[:2]))
    assert steps == [
        (EpochEntry(3, 6), (3, 1)),
        (EpochEntry(0, 2), (2, 0)),
    ]
    catch_up(b.log, follower)
    assert_identical(a.log, b.log)


def test_kafka_6361_a_leader_that_never_wrote_in_its_epoch() -> None:
    """B leads epoch 1 without a record, so epoch 1 is in no log. A has an uncommitted record of
    epoch 0 that B lacks; asked for the end of epoch 0, B must not answer with its log end after it
    has written in epoch 2."""
    a, b = copies(2)
    a.write(0, b"m0")
    catch_up(a.log, b.follow(0))
    a.write(0, b"m1")
    b.lead(1)
    b.lead(2)
    b.write(2, b"n1", b"n2")
    catch_up(b.log, a.follow(2))
    assert a.values == [b"m0", b"n1", b"n2"]
    assert_identical(a.log, b.log)
