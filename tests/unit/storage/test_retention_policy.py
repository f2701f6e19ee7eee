"""Which of the oldest segments expire: pure decisions about numbers."""

from collections.abc import Iterator

import pytest

from sawlog.storage.retention_policy import RetentionPolicy


def expired(
    *,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    deletes: bool = True,
    sizes: tuple[int, ...] = (400, 400, 700),
    newest_ms: tuple[int, ...] = (100, 200, 300),
    now_ms: int = 1000,
) -> int:
    policy = RetentionPolicy(deletes, retention_ms, retention_bytes)
    return policy.expired(sizes, newest_ms, now_ms)


def test_without_limits_nothing_expires() -> None:
    assert expired() == 0


@pytest.mark.parametrize(
    ("retention_bytes", "count"), [(1500, 0), (1101, 0), (1100, 1), (701, 1), (700, 2), (0, 3)]
)
def test_at_least_retention_bytes_are_kept(retention_bytes: int, count: int) -> None:
    assert expired(retention_bytes=retention_bytes) == count


@pytest.mark.parametrize(
    ("retention_ms", "count"), [(900, 0), (899, 1), (800, 1), (799, 2), (699, 3)]
)
def test_a_segment_expires_when_its_newest_record_is_older_than_retention_ms(
    retention_ms: int, count: int
) -> None:
    assert expired(retention_ms=retention_ms) == count


def test_a_young_segment_protects_the_segments_after_it() -> None:
    assert expired(retention_ms=100, newest_ms=(100, 950, 100)) == 1


def test_the_stricter_of_both_limits_counts() -> None:
    assert expired(retention_ms=899, retention_bytes=700) == 2
    assert expired(retention_ms=799, retention_bytes=1100) == 2


def test_a_topic_that_is_only_compacted_keeps_everything() -> None:
    assert expired(retention_ms=0, retention_bytes=0, deletes=False) == 0


def test_timestamps_are_read_only_as_far_as_needed() -> None:
    read: list[int] = []

    def newest_ms() -> Iterator[int]:
        for timestamp in (100, 950, 960):
            read.append(timestamp)
            yield timestamp

    policy = RetentionPolicy(deletes=True, retention_ms=100, retention_bytes=-1)
    assert policy.expired((1, 1, 1), newest_ms(), 1000) == 1
    assert read == [100, 950]
