"""Large buffers are used again, and what lies idle is bounded."""

from sawlog.server.frame_buffers import BufferPool

MIB = 1 << 20


def test_a_buffer_is_used_again_for_a_frame_of_about_its_size() -> None:
    pool = BufferPool()
    first = pool.take(900_000)
    pool.give_back(first)
    assert pool.take(1_000_000) is first
    assert pool.take(1_000_000) is not first


def test_a_buffer_has_room_for_what_was_asked() -> None:
    pool = BufferPool()
    for count in (1, 65_536, 65_537, MIB, MIB + 1, 5 * MIB):
        assert len(pool.take(count)) >= count


def test_idle_memory_is_bounded() -> None:
    pool = BufferPool(idle_limit_bytes=3 * MIB)
    for buffer in [pool.take(MIB) for _ in range(10)]:
        pool.give_back(buffer)
    assert pool.idle_bytes == 3 * MIB


def test_huge_buffers_are_not_kept() -> None:
    pool = BufferPool()
    pool.give_back(pool.take(64 * MIB))
    assert pool.idle_bytes == 0
