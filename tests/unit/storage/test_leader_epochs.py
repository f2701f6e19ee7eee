"""The cache of leader epochs."""

from sawlog.storage.leader_epochs import NO_END, EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_the_example_of_the_docstring() -> None:
    cache = epochs((0, 0), (2, 10), (5, 40))
    assert cache.end_for(0, 50) == (0, 10)
    assert cache.end_for(2, 50) == (2, 40)
    assert cache.end_for(5, 50) == (5, 50)
    assert cache.end_for(3, 50) == (2, 40)
    assert cache.end_for(6, 50) == NO_END


def test_no_epoch_and_an_empty_cache_have_no_end() -> None:
    assert epochs().end_for(0, 50) == NO_END
    assert epochs((1, 0)).end_for(-1, 50) == NO_END


def test_an_epoch_before_the_first_entry_ends_where_that_begins() -> None:
    assert epochs((3, 7), (4, 9)).end_for(1, 50) == (1, 7)


def test_an_epoch_is_assigned_once() -> None:
    cache = epochs((1, 0))
    assert not cache.assign(1, 5)
    assert cache.assign(2, 5)
    assert cache.entries == ((1, 0), (2, 5))
    assert cache.latest == 2


def test_a_new_entry_replaces_entries_that_contradict_it() -> None:
    cache = epochs((1, 0), (2, 5), (4, 9))
    assert cache.assign(3, 9)
    assert cache.entries == ((1, 0), (2, 5), (3, 9))
    assert cache.assign(5, 5)
    assert cache.entries == ((1, 0), (5, 5))


def test_an_epoch_without_a_batch_is_replaced_by_the_next_one() -> None:
    cache = epochs((1, 0))
    cache.assign(2, 5)
    cache.assign(3, 5)
    assert cache.entries == ((1, 0), (3, 5))


def test_truncate_end_removes_epochs_that_begin_there() -> None:
    cache = epochs((1, 0), (2, 5), (3, 9))
    assert not cache.truncate_end(10)
    assert cache.truncate_end(9)
    assert (cache.entries, cache.latest) == (((1, 0), (2, 5)), 2)
    assert cache.truncate_end(0)
    assert (cache.entries, cache.latest) == ((), -1)


def test_truncate_start_moves_the_epoch_that_holds_the_offset() -> None:
    cache = epochs((1, 0), (2, 5), (3, 9))
    assert cache.truncate_start(6)
    assert cache.entries == ((2, 6), (3, 9))
    assert not cache.truncate_start(6)
    assert cache.truncate_start(9)
    assert cache.entries == ((3, 9),)
    assert not cache.truncate_start(2)


def test_the_epoch_of_an_offset() -> None:
    cache = epochs((1, 3), (2, 5))
    assert [cache.epoch_at(offset) for offset in (0, 3, 4, 5, 99)] == [-1, 1, 1, 2, 2]
