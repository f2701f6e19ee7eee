"""Large buffers are reused, and idle memory is bounded."""

from sawlog.server.buffer_pool import BufferPool

MIB = 1 << 20


def test_a_buffer_is_reused_for_a_frame_of_similar_size() -> None:
    pool = BufferPool()
    first = pool.take(900_000)
    pool.give_back(first)
    assert pool.take(1_000_000) is first
    assert pool.take(1_000_000) is not first


def test_a_buffer_has_at_least_the_requested_size() -> None:
    pool = BufferPool()
    for count in (1, 65_536, 65_537, MIB, MIB + 1, 5 * MIB):
        assert len(pool.take(count)) >= count


def test_idle_memory_is_bounded() -> None:
    pool = BufferPool(idle_limit_bytes=3 * MIB)
    for buffer in [pool.take(MIB) for _ in range(10)]:
        pool.give_back(buffer)
    assert pool.idle_bytes == 3 * MIB


def test_very_large_buffers_are_not_kept() -> None:
    pool = BufferPool()
    pool.give_back(pool.take(64 * MIB))
    assert pool.idle_bytes == 0
