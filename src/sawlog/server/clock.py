"""The Clock, Timer and Random ports on the real machine."""

import asyncio
import os
import secrets
import time
from collections.abc import Callable


class SystemClock:
    """The Clock port on the machine's own clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class LoopTimer:
    """The Timer port on the event loop; actions run on the loop's thread."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def after(self, delay_ms: int, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, action)


class SystemRandom:
    """The Random port on the kernel's generator."""

    __slots__ = ()

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)
