"""fdatasync with Linux AIO, without a thread of this process.

A thread that returns from fdatasync needs the interpreter's lock and takes it from the loop: under
load this was a third of the cost of a flush. With AIO the kernel runs fdatasync on its own workers
and signals completions through an eventfd. Python has no functions for AIO, so the system calls are
made by number.
"""

import ctypes
import os
import platform
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SLOTS = 256
"""The maximum number of calls under way; more wait for a free slot."""

_SYSTEM_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""The numbers of io_setup, io_destroy, io_getevents and io_submit."""
_FDSYNC = 3  # IOCB_CMD_FDSYNC
_NOTIFY_EVENTFD = 1  # IOCB_FLAG_RESFD
_EVENT = struct.Struct("=QQqq")

OnDone = Callable[[int], None]
"""Called with the errno, or 0."""


class _Iocb(ctypes.Structure):
    """The kernel's `struct iocb`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("event_descriptor", ctypes.c_uint32),
    )


class NotSupported(OSError):
    """The system does not support Linux AIO, or its limit is reached."""


class KernelSyncs:
    """Invariant: a slot is either in `_free` or under way, with its callback in `_callbacks`."""

    def __init__(self, loop: "AbstractEventLoop", fallback: Callable[[int, OnDone], None]) -> None:
        """`fallback` is called for files that the kernel does not accept. OSError if AIO cannot be
        used: NotSupported, or no descriptor is left."""
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if numbers is None:
            raise NotSupported(f"unknown system call numbers on {platform.machine()}")
        setup, self._destroy, self._get_events, self._submit = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._call(setup, SLOTS, ctypes.byref(self._context)) != 0:
            os.close(self._wake)
            raise NotSupported(os.strerror(ctypes.get_errno()))
        self._loop = loop
        self._fallback = fallback
        self._iocbs = [
            _Iocb(slot, opcode=_FDSYNC, flags=_NOTIFY_EVENTFD, event_descriptor=self._wake)
            for slot in range(SLOTS)
        ]
        self._lists = [(ctypes.c_void_p * 1)(ctypes.addressof(iocb)) for iocb in self._iocbs]
        self._events = ctypes.create_string_buffer(_EVENT.size * SLOTS)
        self._free = list(range(SLOTS))
        self._callbacks: list[OnDone | None] = [None] * SLOTS
        self._waiting: deque[tuple[int, OnDone]] = deque()
        loop.add_reader(self._wake, self._finished)

    @property
    def under_way(self) -> int:
        return SLOTS - len(self._free) + len(self._waiting)

    def sync(self, descriptor: int, done: OnDone) -> None:
        """Call fdatasync, then `done` once, later."""
        if not self._free:
            self._waiting.append((descriptor, done))
            return
        slot = self._free.pop()
        self._iocbs[slot].descriptor = descriptor
        if self._call(self._submit, self._context, 1, self._lists[slot]) != 1:
            self._free.append(slot)
            self._fallback(descriptor, done)
            return
        self._callbacks[slot] = done

    def close(self) -> None:
        """Wait for the calls under way; no callback is called any more."""
        self._loop.remove_reader(self._wake)
        self._call(self._destroy, self._context)
        os.close(self._wake)

    def _finished(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
        count = self._call(self._get_events, self._context, 0, SLOTS, self._events, None)
        finished: list[tuple[OnDone, int]] = []
        for slot, _, result, _ in _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size]):
            done = self._callbacks[slot]
            self._callbacks[slot] = None
            self._free.append(slot)
            if done is not None:
                finished.append((done, -result))
        while self._waiting and self._free:
            self.sync(*self._waiting.popleft())
        for done, error in finished:
            done(error)
