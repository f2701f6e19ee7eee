"""Memory for large frames, used again: new pages cost their faults and their zeroing.

Sizes are rounded up to powers of two, so that frames of about the same size share a buffer; what
lies idle is bounded, and very large buffers are not kept at all.
"""

from sawlog.server.page_memory import pages

_SMALLEST_BYTES = 1 << 16
_LARGEST_KEPT_BYTES = 1 << 22


class BufferPool:
    """Buffers by size, the last one given back first."""

    __slots__ = ("_free", "_idle_limit_bytes", "idle_bytes")

    def __init__(self, idle_limit_bytes: int = 1 << 24) -> None:
        self._idle_limit_bytes = idle_limit_bytes
        self._free: dict[int, list[memoryview]] = {}
        self.idle_bytes = 0

    def take(self, count: int) -> memoryview:
        """A buffer of `count` bytes or more; what is in it is left over from others."""
        if count > _LARGEST_KEPT_BYTES:
            return pages(count)
        size = max(_SMALLEST_BYTES, 1 << (count - 1).bit_length())
        free = self._free.get(size)
        if free:
            self.idle_bytes -= size
            return free.pop()
        return pages(size)

    def give_back(self, buffer: memoryview) -> None:
        size = len(buffer)
        if size > _LARGEST_KEPT_BYTES or self.idle_bytes + size > self._idle_limit_bytes:
            return
        self._free.setdefault(size, []).append(buffer)
        self.idle_bytes += size
