"""The queue of buffers and file slices that a connection has to send.

A slice stays in its file until it is sent, so a slow consumer holds descriptors but no memory.
Small slices are read into scratch memory and sent with their headers in one call; if the socket
does not accept them, they are read again later.
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


class SendVector:
    """Buffers for one sendmsg, their total length, and whether a file slice follows."""

    __slots__ = ("buffers", "is_slice_next", "length")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.length = 0
        self.is_slice_next = False


class SendQueue:
    """`scratch` is shared by all queues of a loop; its content is valid until the next gather."""

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
        """Return the first part if it is a slice."""
        first = self._parts[0]
        return first if isinstance(first, PinnedSlice) else None

    def gather(self) -> SendVector:
        """Return what can be sent with one call; no buffers if a slice must be sent on its own."""
        vector = SendVector()
        filled = 0
        for part in self._parts:
            if len(vector.buffers) == _BUFFERS_PER_CALL:
                break
            if isinstance(part, PinnedSlice):
                # With the same page offset as in the file: see `buffer_pool`.
                start = -(-filled // PAGE_BYTES) * PAGE_BYTES + part.position % PAGE_BYTES
                end = start + part.remaining
                if part.remaining > SMALL_SLICE_BYTES or end > _SCRATCH_BYTES:
                    vector.is_slice_next = True
                    break
                target = self._scratch[start:end]
                if not self._page_cache.read_into(part.descriptor, part.position, target):
                    vector.is_slice_next = True
                    break
                filled = end
                vector.buffers.append(target)
            else:
                vector.buffers.append(part)
            vector.length += len(part)
        return vector

    def consume(self, count: int) -> None:
        """Remove bytes that were sent."""
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
