"""Frames are reassembled however the stream of bytes is split."""

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.errors import MalformedFrame
from sawlog.server.frames import (
    AMPLE_STEP_BYTES,
    FRAMES_PER_TURN,
    RECEIVE_BYTES,
    SMALL_FRAME_BYTES,
    TURN_MS,
    FrameMemory,
    FrameReader,
    ReadResult,
)
from sawlog.server.request_memory import BudgetShare, ByteBudget
from support.server.shell import ManualClock, framed

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


class Wire:
    """A stream of bytes; each receive returns the next piece, or as much as fits."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    def receive_into(self, target: memoryview) -> int:
        if not self._pieces:
            raise BlockingIOError
        piece = self._pieces.pop(0)
        count = min(len(target), len(piece))
        target[:count] = piece[:count]
        if count < len(piece):
            self._pieces.insert(0, piece[count:])
        return count


class Receiver:
    """A frame reader that accepts a given number of frames at a time."""

    def __init__(self, *, limit: int = 100 * MIB, budget: int = 100 * MIB) -> None:
        self.frames: list[bytes] = []
        self.ms_per_frame = 0
        self.grants = 0
        self.clock = ManualClock()
        self.memory = FrameMemory(ByteBudget(budget), self.clock)
        self.reader = FrameReader(self.memory, limit, self.deliver, self.granted)
        self.appetite: Iterator[bool] = iter(())

    def deliver(self, frame: memoryview) -> bool:
        self.frames.append(bytes(frame))
        self.clock.advance(self.ms_per_frame)
        frame[:] = b"\xff" * len(frame)  # the views are writable and valid during this call
        return next(self.appetite, True)

    def granted(self) -> None:
        self.grants += 1

    def take_elsewhere(self, count: int) -> BudgetShare:
        share = BudgetShare(self.memory.budget, lambda: None)
        assert share.take(count)
        return share

    def read_all(self, wire: Wire) -> None:
        while not wire.is_empty:
            cut = self.reader.read(wire.receive_into)
            while cut is ReadResult.PAUSED:
                cut = self.reader.read_rest()
            assert cut is ReadResult.CONTINUE


def cut_up(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(places)]


sizes = st.one_of(
    st.integers(0, 40),
    st.integers(SMALL_FRAME_BYTES - 2, SMALL_FRAME_BYTES + 2),
    st.integers(RECEIVE_BYTES - 6, RECEIVE_BYTES + 6),
    st.integers(AMPLE_STEP_BYTES + RECEIVE_BYTES - 6, AMPLE_STEP_BYTES + RECEIVE_BYTES + 6),
)


def bodies(lengths: list[int]) -> list[bytes]:
    return [bytes([index % 251]) * length for index, length in enumerate(lengths)]


@given(
    lengths=st.lists(sizes, max_size=12),
    cuts=st.lists(st.integers(0, 4 * MIB), max_size=12),
    appetite=st.lists(st.booleans(), max_size=12),
)
def test_frames_are_complete_and_in_order_however_the_stream_is_split(
    lengths: list[int], cuts: list[int], appetite: list[bool]
) -> None:
    sent = bodies(lengths)
    receiver = Receiver()
    receiver.appetite = iter(appetite)
    receiver.read_all(Wire(cut_up(b"".join(map(framed, sent)), cuts)))
    assert receiver.frames == sent
    assert receiver.reader.unfinished_bytes == 0
    assert receiver.memory.budget.taken == 0


@given(lengths=st.lists(st.integers(0, 9), max_size=6))
def test_frames_are_complete_when_received_byte_by_byte(lengths: list[int]) -> None:
    sent = bodies(lengths)
    stream = b"".join(map(framed, sent))
    receiver = Receiver()
    receiver.read_all(Wire([stream[i : i + 1] for i in range(len(stream))]))
    assert receiver.frames == sent


def test_a_read_pauses_after_many_small_frames() -> None:
    receiver = Receiver()
    wire = Wire([framed(b"request") * (FRAMES_PER_TURN + 10)])
    assert receiver.reader.read(wire.receive_into) is ReadResult.PAUSED
    assert len(receiver.frames) == FRAMES_PER_TURN
    assert receiver.reader.read_rest() is ReadResult.CONTINUE
    assert len(receiver.frames) == FRAMES_PER_TURN + 10


def test_a_read_pauses_early_after_slow_frames() -> None:
    receiver = Receiver()
    receiver.ms_per_frame = TURN_MS // 2
    assert receiver.reader.read(Wire([framed(b"slow") * 5]).receive_into) is ReadResult.PAUSED
    assert len(receiver.frames) == 2
    assert receiver.reader.read_rest() is ReadResult.PAUSED
    assert len(receiver.frames) == 4
    assert receiver.reader.read_rest() is ReadResult.CONTINUE
    assert len(receiver.frames) == 5


def test_a_read_does_not_pause_after_its_last_frame() -> None:
    receiver = Receiver()
    receiver.ms_per_frame = 10 * TURN_MS
    assert receiver.reader.read(Wire([framed(b"slow")]).receive_into) is ReadResult.CONTINUE


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 1001])
def test_an_invalid_length_is_rejected_before_memory_is_taken(length: int) -> None:
    receiver = Receiver(limit=1000)
    with pytest.raises(MalformedFrame, match=str(length)):
        receiver.reader.read(Wire([length.to_bytes(4, "big", signed=True)]).receive_into)
    assert receiver.memory.budget.taken == 0


def test_a_frame_of_the_maximum_size_is_accepted() -> None:
    receiver = Receiver(limit=1000)
    receiver.read_all(Wire([framed(bytes(1000))]))
    assert receiver.frames == [bytes(1000)]


def test_a_frame_waits_for_budget() -> None:
    receiver = Receiver(budget=MIB)
    budget = receiver.memory.budget
    other = receiver.take_elsewhere(MIB - 10)
    body = b"x" * 200_000
    wire = Wire([framed(body)[:100_000], framed(body)[100_000:] + framed(b"next")])
    assert receiver.reader.read(wire.receive_into) is ReadResult.WAITING
    assert receiver.reader.is_waiting
    other.give_back()
    assert receiver.grants == 1
    assert budget.taken == len(body)
    receiver.read_all(wire)
    assert receiver.frames == [body, b"next"]
    assert budget.taken == 0


def test_a_frame_takes_its_granted_budget_once() -> None:
    receiver = Receiver(budget=MIB)
    other = receiver.take_elsewhere(MIB - 10)
    body = b"x" * 700_000
    wire = Wire([framed(body)[:100_000], framed(body)[100_000:]])
    assert receiver.reader.read(wire.receive_into) is ReadResult.WAITING
    other.give_back()
    assert receiver.reader.read_rest() is ReadResult.CONTINUE
    assert receiver.memory.budget.taken <= len(body)
    receiver.read_all(wire)
    assert receiver.frames == [body]
    assert receiver.memory.budget.taken == 0


def test_an_announced_length_takes_little_budget() -> None:
    receiver = Receiver()
    announced = (100 * MIB).to_bytes(4, "big") + bytes(10)
    receiver.reader.read(Wire([announced]).receive_into)
    assert receiver.memory.budget.taken == 10 + AMPLE_STEP_BYTES


def test_a_frame_takes_budget_as_its_bytes_arrive() -> None:
    receiver = Receiver(budget=4 * MIB)
    budget = receiver.memory.budget
    other = receiver.take_elsewhere(MIB)
    body = bytes(range(256)) * (5 * MIB // 256)
    wire = Wire([framed(body)])
    cut = ReadResult.CONTINUE
    while cut is ReadResult.CONTINUE:
        cut = receiver.reader.read(wire.receive_into)
    assert cut is ReadResult.WAITING
    assert budget.taken <= budget.limit
    other.give_back()
    receiver.read_all(wire)
    assert receiver.frames == [body]
    assert budget.taken == 0


def test_small_frames_need_no_budget() -> None:
    receiver = Receiver(budget=MIB)
    receiver.take_elsewhere(MIB)
    frame = framed(b"h" * 5000)
    receiver.read_all(Wire([frame[:3000], frame[3000:]]))
    assert receiver.frames == [b"h" * 5000]


def test_close_releases_an_incomplete_frame() -> None:
    receiver = Receiver()
    receiver.reader.read(Wire([framed(bytes(MIB))[:1000]]).receive_into)
    assert receiver.memory.budget.taken == MIB
    receiver.reader.close()
    assert receiver.memory.budget.taken == 0


def test_close_leaves_the_queue_for_budget() -> None:
    receiver = Receiver(budget=MIB)
    budget = receiver.memory.budget
    other = receiver.take_elsewhere(MIB)
    receiver.reader.read(Wire([framed(bytes(MIB))[:1000]]).receive_into)
    receiver.reader.close()
    other.give_back()
    assert (budget.taken, budget.waiting, receiver.grants) == (0, 0, 0)


def test_the_end_of_the_stream_is_reported() -> None:
    assert Receiver().reader.read(lambda target: 0) is ReadResult.END
