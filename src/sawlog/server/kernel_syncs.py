"""fdatasync by the kernel's own workers (Linux AIO): no thread of ours waits for a disk.

A thread that comes back from fdatasync needs the interpreter's lock, and takes it from the loop at
the worst moment: under load a third of a flush's cost was that. The kernel's asynchronous IO does
the same call on its own workers and says through one descriptor that some are done. Python has no
call for it, so these few are made by number.
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
"""Syncs under way at a time; others wait for one of them."""

_SYSTEM_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""The numbers of io_setup, io_destroy, io_getevents and io_submit."""
_FDSYNC = 3  # IOCB_CMD_FDSYNC
_TELL_DESCRIPTOR = 1  # IOCB_FLAG_RESFD
_EVENT = struct.Struct("=QQqq")

Told = Callable[[int], None]
"""Gets the number of the error, 0 where there was none."""


class _Order(ctypes.Structure):
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


class NotOffered(OSError):
    """This system has no such calls, or grants none."""


class KernelSyncs:
    """Invariant: a slot is either in `_free` or under way, with the one to tell in `_told`."""

    def __init__(self, loop: "AbstractEventLoop", otherwise: Callable[[int, Told], None]) -> None:
        """`otherwise` syncs in another way what the kernel does not take. OSError where it takes
        nothing at all: NotOffered, or no descriptor is left."""
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if numbers is None:
            raise NotOffered(f"no call numbers for {platform.machine()}")
        setup, self._destroy, self._get_events, self._submit = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._call(setup, SLOTS, ctypes.byref(self._context)) != 0:
            os.close(self._wake)
            raise NotOffered(os.strerror(ctypes.get_errno()))
        self._loop = loop
        self._otherwise = otherwise
        self._orders = [
            _Order(slot, opcode=_FDSYNC, flags=_TELL_DESCRIPTOR, event_descriptor=self._wake)
            for slot in range(SLOTS)
        ]
        self._lists = [(ctypes.c_void_p * 1)(ctypes.addressof(order)) for order in self._orders]
        self._events = ctypes.create_string_buffer(_EVENT.size * SLOTS)
        self._free = list(range(SLOTS))
        self._told: list[Told | None] = [None] * SLOTS
        self._waiting: deque[tuple[int, Told]] = deque()
        loop.add_reader(self._wake, self._finished)

    @property
    def under_way(self) -> int:
        return SLOTS - len(self._free) + len(self._waiting)

    def sync(self, descriptor: int, told: Told) -> None:
        """Calls `told` once, and later."""
        if not self._free:
            self._waiting.append((descriptor, told))
            return
        slot = self._free.pop()
        self._orders[slot].descriptor = descriptor
        if self._call(self._submit, self._context, 1, self._lists[slot]) != 1:
            self._free.append(slot)
            self._otherwise(descriptor, told)
            return
        self._told[slot] = told

    def close(self) -> None:
        """Waits for those under way; nobody is told any more."""
        self._loop.remove_reader(self._wake)
        self._call(self._destroy, self._context)
        os.close(self._wake)

    def _finished(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
        count = self._call(self._get_events, self._context, 0, SLOTS, self._events, None)
        done: list[tuple[Told, int]] = []
        for slot, _, result, _ in _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size]):
            told = self._told[slot]
            self._told[slot] = None
            self._free.append(slot)
            if told is not None:
                done.append((told, -result))
        while self._waiting and self._free:
            self.sync(*self._waiting.popleft())
        for told, error in done:
            told(error)
