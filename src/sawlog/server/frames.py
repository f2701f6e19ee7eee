"""Cuts a connection's bytes into frames, with as little copying as can be.

All connections of a loop receive into one large buffer, and whole frames are handed on as views
of it. Only what is left over at the end is copied: a small beginning is put in front of the next
bytes, a large frame gets a buffer of its own, which the rest is received into directly. Its length
is checked before the buffer exists; its pages exist as they are filled, and are taken from the
budget just before.
"""

from collections.abc import Callable
from enum import Enum, auto
from struct import Struct

from sawlog.core.errors import MalformedFrame
from sawlog.core.ports import Clock
from sawlog.server.buffer_pool import BufferPool, pages
from sawlog.server.request_memory import ByteBudget, Share

RECEIVE_BYTES = 1 << 19
SMALL_FRAME_BYTES = 1 << 17
"""Frames up to this size are put together in the shared buffer and need no budget."""

AMPLE_STEP_BYTES = 1 << 20
SCARCE_STEP_BYTES = 1 << 17
"""How far ahead of its bytes a frame takes budget: the usual one in one step, unless it is scarce;
many connections that announce much and send nothing shall not hold much."""

FRAMES_PER_TURN = 64
TURN_MS = 10
"""After so many, or so long, it is another connection's turn."""

_LENGTH = Struct(">i")
_PREFIX_BYTES = 4
_NO_BUFFER = memoryview(b"")

Receive = Callable[[memoryview], int]


class Cut(Enum):
    """What became of the bytes that were received."""

    GO_ON = auto()
    ENDED = auto()  # the other side sends no more
    PAUSED = auto()  # enough for now; whole frames may be left for `go_on`
    WAITING = auto()  # for budget; `granted` will be called, or was


_GO_ON = Cut.GO_ON  # members of an Enum are slow to look up before Python 3.12


class FrameMemory:
    """What the frame readers of a loop share. Used by one call at a time, never kept across."""

    __slots__ = ("budget", "bytes_received", "clock", "pool", "view")

    def __init__(self, budget: ByteBudget, clock: Clock) -> None:
        self.budget = budget
        self.clock = clock
        self.pool = BufferPool()
        self.view = pages(RECEIVE_BYTES)
        self.bytes_received = 0


class FrameReader:
    """One connection's incoming bytes.

    `deliver` gets each frame as a writable view that is valid during the call, and says whether it
    can take another. `granted` is called when budget came for a frame that waited for it.
    """

    __slots__ = (
        "_deliver",
        "_kept",
        "_large",
        "_large_buffer",
        "_memory",
        "_received",
        "_share",
        "completed",
        "limit_bytes",
    )

    def __init__(
        self,
        memory: FrameMemory,
        limit_bytes: int,
        deliver: Callable[[memoryview], bool],
        granted: Callable[[], None],
    ) -> None:
        self._memory = memory
        self._deliver = deliver
        self._share = Share(memory.budget, granted)
        self.limit_bytes = limit_bytes
        self.completed = 0  # moves whenever frames were delivered
        # Of the frame under way; `_large` is None while it is small.
        self._kept = bytearray()
        self._large: memoryview | None = None
        self._large_buffer = _NO_BUFFER
        self._received = 0

    @property
    def unfinished_bytes(self) -> int:
        """How much there is of a frame that has begun and is not whole; 0 between frames."""
        return len(self._kept) if self._large is None else self._received + _PREFIX_BYTES

    @property
    def is_waiting(self) -> bool:
        """Whether `granted` is still to be called."""
        return self._share.wanted > 0

    def read(self, receive_into: Receive) -> Cut:
        """Receives once and delivers the frames that are whole; MalformedFrame if a length lies.

        BlockingIOError and other errors of `receive_into` pass through and change nothing.
        """
        if self._large is not None:
            return self._read_large(receive_into)
        memory = self._memory
        view = memory.view
        kept = len(self._kept)
        if kept:
            if self._share.taken:
                self._start_large()
                return self._read_large(receive_into)
            count = receive_into(view[kept:])
            view[:kept] = self._kept
            self._kept.clear()
        else:
            count = receive_into(view)
        if count == 0:
            return Cut.ENDED
        memory.bytes_received += count
        return self._cut(view, kept + count)

    def go_on(self) -> Cut:
        """Delivers whole frames that were left."""
        if self._share.taken:
            return _GO_ON  # a large frame has begun: `read` goes on with it
        kept = self._kept
        self._kept = bytearray()
        return self._cut(memoryview(kept), len(kept))

    def close(self) -> None:
        """Gives everything back."""
        self._kept = bytearray()
        if self._large is not None:
            self._large = None
            self._memory.pool.give_back(self._large_buffer)
            self._large_buffer = _NO_BUFFER
        self._share.give_back()

    def _cut(self, view: memoryview, end: int) -> Cut:
        position = 0
        limit = self.limit_bytes
        deliver = self._deliver
        unpack = _LENGTH.unpack_from
        last = self.completed + FRAMES_PER_TURN
        monotonic_ms = self._memory.clock.monotonic_ms
        turn_ends_ms = monotonic_ms() + TURN_MS
        while end - position >= _PREFIX_BYTES:
            (length,) = unpack(view, position)
            if not 0 <= length <= limit:
                raise MalformedFrame(f"frame of {length} bytes, where 0 to {limit} are allowed")
            start = position + _PREFIX_BYTES
            if start + length > end:
                return self._begin(view[position:end], length)
            position = start + length
            self.completed += 1
            if (
                not deliver(view[start:position])
                or self.completed == last
                or (position < end and monotonic_ms() >= turn_ends_ms)
            ):
                self._keep(view[position:end])
                return Cut.PAUSED
        if position < end:
            self._keep(view[position:end])
        return _GO_ON

    def _keep(self, rest: memoryview) -> None:
        self._kept = bytearray(rest)

    def _begin(self, beginning: memoryview, length: int) -> Cut:
        """The first bytes of a frame that is not whole yet."""
        self._keep(beginning)
        if length <= SMALL_FRAME_BYTES:
            return _GO_ON
        received = len(beginning) - _PREFIX_BYTES
        if not self._share.take(received + self._step(length - received)):
            return Cut.WAITING
        self._start_large()
        return _GO_ON

    def _step(self, rest: int) -> int:
        is_ample = self._memory.budget.is_ample
        return min(rest, AMPLE_STEP_BYTES if is_ample else SCARCE_STEP_BYTES)

    def _start_large(self) -> None:
        (length,) = _LENGTH.unpack_from(self._kept)
        self._large_buffer = self._memory.pool.take(length)
        self._large = self._large_buffer[:length]
        self._received = len(self._kept) - _PREFIX_BYTES
        self._large[: self._received] = memoryview(self._kept)[_PREFIX_BYTES:]
        self._kept = bytearray()

    def _read_large(self, receive_into: Receive) -> Cut:
        frame = self._large
        assert frame is not None
        share = self._share
        count = receive_into(frame[self._received : share.taken])
        if count == 0:
            return Cut.ENDED
        self._memory.bytes_received += count
        self._received += count
        rest = len(frame) - self._received
        if rest:
            if self._received < share.taken or share.take(self._step(rest)):
                return _GO_ON
            return Cut.WAITING
        # Out of `close`'s reach while the application looks at it.
        buffer = self._large_buffer
        self._large = None
        self._large_buffer = _NO_BUFFER
        self.completed += 1
        try:
            return _GO_ON if self._deliver(frame) else Cut.PAUSED
        finally:
            self._memory.pool.give_back(buffer)
            share.give_back()
