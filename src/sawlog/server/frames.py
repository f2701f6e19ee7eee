"""Splits a connection's bytes into frames with little copying.

All connections of a loop receive into one large buffer, and complete frames are passed on as views
of it. Only an incomplete frame at the end is copied: a small one is put in front of the next bytes,
a large one gets a buffer of its own and the rest is received directly into it. The length is
checked before the buffer is allocated, and memory is taken from the budget as it is filled.
"""

from collections.abc import Callable
from enum import Enum, auto
from struct import Struct

from sawlog.core.errors import MalformedFrame
from sawlog.core.ports import Clock
from sawlog.server.buffer_pool import BufferPool, pages
from sawlog.server.request_memory import BudgetShare, ByteBudget

RECEIVE_BYTES = 1 << 19
SMALL_FRAME_BYTES = 1 << 17
"""Frames up to this size are assembled in the shared buffer and need no budget."""

AMPLE_STEP_BYTES = 1 << 20
SCARCE_STEP_BYTES = 1 << 17
"""How much budget a frame takes ahead of its bytes: enough for a usual frame, but little when the
budget is scarce, so that clients which announce much and send little do not hold it."""

FRAMES_PER_TURN = 64
TURN_MS = 10
"""After this many frames, or this long, it is another connection's turn."""

_LENGTH = Struct(">i")
_PREFIX_BYTES = 4
_NO_BUFFER = memoryview(b"")

Receive = Callable[[memoryview], int]


class ReadResult(Enum):
    """What a read ended with."""

    CONTINUE = auto()  # more can be read
    END = auto()  # of the stream: the client sends no more
    PAUSED = auto()  # complete frames may be left for `read_rest`
    WAITING = auto()  # for budget; `granted` will be called, or was


_CONTINUE = ReadResult.CONTINUE  # Enum members are slow to look up before Python 3.12


class FrameMemory:
    """The memory that all frame readers of a loop share, each during one call."""

    __slots__ = ("budget", "bytes_received", "clock", "pool", "view")

    def __init__(self, budget: ByteBudget, clock: Clock) -> None:
        self.budget = budget
        self.clock = clock
        self.pool = BufferPool()
        self.view = pages(RECEIVE_BYTES)
        self.bytes_received = 0


class FrameReader:
    """One connection's incoming bytes.

    `deliver` gets each frame as a writable view that is valid during the call, and returns whether
    it accepts another. `granted` is called when a waiting frame gets its budget.
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
        self._share = BudgetShare(memory.budget, granted)
        self.limit_bytes = limit_bytes
        self.completed = 0  # frames delivered
        # The incomplete frame: in `_kept` if it is small, else in `_large`
        self._kept = bytearray()
        self._large: memoryview | None = None
        self._large_buffer = _NO_BUFFER
        self._received = 0

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes of an incomplete frame were received; 0 between frames."""
        return len(self._kept) if self._large is None else self._received + _PREFIX_BYTES

    @property
    def is_waiting(self) -> bool:
        """Whether `granted` is still to be called."""
        return self._share.wanted > 0

    def read(self, receive_into: Receive) -> ReadResult:
        """Receive once and deliver complete frames; MalformedFrame if a length is invalid.

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
            return ReadResult.END
        memory.bytes_received += count
        return self._split(view, kept + count)

    def read_rest(self) -> ReadResult:
        """Deliver the complete frames that a paused read left."""
        if self._share.taken:
            return _CONTINUE  # a large frame has started: `read` continues it
        kept = self._kept
        self._kept = bytearray()
        return self._split(memoryview(kept), len(kept))

    def close(self) -> None:
        """Release all memory."""
        self._kept = bytearray()
        if self._large is not None:
            self._large = None
            self._memory.pool.give_back(self._large_buffer)
            self._large_buffer = _NO_BUFFER
        self._share.give_back()

    def _split(self, view: memoryview, end: int) -> ReadResult:
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
                raise MalformedFrame(
                    f"a frame of {length} bytes; 0 to {limit} are legal (socket.request.max.bytes)"
                )
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
                return ReadResult.PAUSED
        if position < end:
            self._keep(view[position:end])
        return _CONTINUE

    def _keep(self, rest: memoryview) -> None:
        self._kept = bytearray(rest)

    def _begin(self, beginning: memoryview, length: int) -> ReadResult:
        """Keep the first bytes of an incomplete frame."""
        self._keep(beginning)
        if length <= SMALL_FRAME_BYTES:
            return _CONTINUE
        received = len(beginning) - _PREFIX_BYTES
        if not self._share.take(received + self._step(length - received)):
            return ReadResult.WAITING
        self._start_large()
        return _CONTINUE

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

    def _read_large(self, receive_into: Receive) -> ReadResult:
        frame = self._large
        assert frame is not None
        share = self._share
        count = receive_into(frame[self._received : share.taken])
        if count == 0:
            return ReadResult.END
        self._memory.bytes_received += count
        self._received += count
        rest = len(frame) - self._received
        if rest:
            if self._received < share.taken or share.take(self._step(rest)):
                return _CONTINUE
            return ReadResult.WAITING
        # `close` must not release the buffer while the application uses it.
        buffer = self._large_buffer
        self._large = None
        self._large_buffer = _NO_BUFFER
        self.completed += 1
        try:
            return _CONTINUE if self._deliver(frame) else ReadResult.PAUSED
        finally:
            self._memory.pool.give_back(buffer)
            share.give_back()
