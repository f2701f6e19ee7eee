"""What a connection has yet to send, in order: buffers and slices of files.

A slice stays a slice until its bytes have left, so a slow reader holds descriptors, never memory.
Small slices are read into scratch memory beside their headers and leave with the same call; if
the socket does not take them, they are read again another time.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sawlog.server.buffer_pool import PAGE_BYTES, pages
from sawlog.server.file_slices import Outgoing, PageCache, PinnedSlice, release

if TYPE_CHECKING:
    from sawlog.core.ports import Buffer

SMALL_SLICE_BYTES = 1 << 17
_SCRATCH_BYTES = 1 << 19
_BUFFERS_PER_CALL = 64


class Gathered:
    """Buffers for one call, how long they are, and whether a slice follows right behind them."""

    __slots__ = ("buffers", "is_slice_next", "length")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.length = 0
        self.is_slice_next = False


class OutgoingQueue:
    """`scratch` belongs to all queues of a loop; what is in it is good until the next gather."""

    __slots__ = ("_page_cache", "_parts", "_scratch")

    def __init__(self, page_cache: PageCache, scratch: memoryview) -> None:
        self._page_cache = page_cache
        self._scratch = scratch
        self._parts: deque[Outgoing] = deque()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Sequence[Outgoing]) -> None:
        self._parts.extend(parts)

    def first_slice(self) -> PinnedSlice | None:
        """The slice whose turn it is, if it is one's turn."""
        first = self._parts[0]
        return first if isinstance(first, PinnedSlice) else None

    def gather(self) -> Gathered:
        """What can leave with one call; nothing, where a slice is first that must go alone."""
        gathered = Gathered()
        filled = 0
        for part in self._parts:
            if len(gathered.buffers) == _BUFFERS_PER_CALL:
                break
            if isinstance(part, PinnedSlice):
                # At the same place in a page as in the file: see `buffer_pool`.
                start = -(-filled // PAGE_BYTES) * PAGE_BYTES + part.position % PAGE_BYTES
                end = start + part.remaining
                if part.remaining > SMALL_SLICE_BYTES or end > _SCRATCH_BYTES:
                    gathered.is_slice_next = True
                    break
                room = self._scratch[start:end]
                if not self._page_cache.read_into(part.descriptor, part.position, room):
                    gathered.is_slice_next = True
                    break
                filled = end
                gathered.buffers.append(room)
            else:
                gathered.buffers.append(part)
            gathered.length += len(part)
        return gathered

    def consume(self, count: int) -> None:
        """That many bytes have left."""
        parts = self._parts
        while count:
            part = parts[0]
            if count < len(part):
                if isinstance(part, PinnedSlice):
                    part.advance(count)
                else:
                    parts[0] = memoryview(part)[count:]
                return
            count -= len(part)
            parts.popleft()
            if isinstance(part, PinnedSlice):
                part.release()

    def clear(self) -> None:
        release(self._parts)
        self._parts.clear()


def new_scratch() -> memoryview:
    return pages(_SCRATCH_BYTES)
