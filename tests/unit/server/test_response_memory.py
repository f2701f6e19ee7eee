"""The memory for the responses of other brokers: kept while it is of use."""

from sawlog.server.peers import KEPT_BYTES, ResponseMemory

LARGE = 3 * KEPT_BYTES


def test_a_response_has_its_size() -> None:
    memory = ResponseMemory()
    sizes = [1, 5_000, LARGE, 17, KEPT_BYTES, LARGE + 1]
    assert [len(memory.take(size)) for size in sizes] == sizes


def test_responses_of_similar_size_share_memory() -> None:
    memory = ResponseMemory()
    small = memory.take(10_000)
    assert memory.take(11_000).obj is small.obj
    large = memory.take(LARGE)
    assert large.obj is not small.obj
    assert memory.take(LARGE + 100_000).obj is large.obj


def test_a_small_response_releases_the_memory_of_a_large_one() -> None:
    memory = ResponseMemory()
    large = memory.take(LARGE)
    small = memory.take(KEPT_BYTES)
    assert small.obj is not large.obj
    assert memoryview(small.obj).nbytes == KEPT_BYTES
    assert memory.take(100).obj is small.obj
