"""fdatasync without blocking the loop: with Linux AIO if the kernel has it, else on threads."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from sawlog.core.ports import DiskError
    from sawlog.server.disk_threads import DiskThreads
    from sawlog.server.kernel_syncs import KernelSyncs

logger = EventLogger(__name__)


class DataSyncs:
    """Linux AIO is set up with the first fdatasync: an idle broker does not need it."""

    def __init__(self, threads: "DiskThreads", loop: "AbstractEventLoop | None") -> None:
        self._threads = threads
        self._loop = loop
        self._kernel: KernelSyncs | None = None

    def sync(self, descriptor: int, done: Callable[[int], None]) -> None:
        """Call fdatasync, then `done` on the loop's thread with the errno or 0. Never raises."""
        if self._loop is not None:
            self._set_up_kernel(self._loop)
        if self._kernel is not None:
            self._kernel.sync(descriptor, done)
        else:
            self._on_thread(descriptor, done)

    def close(self) -> None:
        """Wait for the calls under way."""
        self._loop = None
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _set_up_kernel(self, loop: "AbstractEventLoop") -> None:
        self._loop = None
        try:
            from sawlog.server.kernel_syncs import KernelSyncs  # imports ctypes

            self._kernel = KernelSyncs(loop, self._on_thread)
        except (OSError, ImportError) as reason:  # both also if no descriptor is left
            logger.info("Linux AIO is unavailable: using threads for fsync", reason=str(reason))

    def _on_thread(self, descriptor: int, done: Callable[[int], None]) -> None:
        result = 0

        def synchronise() -> None:
            nonlocal result
            try:
                os.fdatasync(descriptor)
            except OSError as error:
                result = error.errno or -1

        def finished(broken: "DiskError | None") -> None:
            done(result if broken is None else -1)

        self._threads.run(synchronise, finished)
