"""How the data of files gets to the disk without stopping the loop: by the kernel's own workers
where it has them, else on threads."""

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
    """The kernel is asked when the first file is to be synced: a broker that is not written to
    needs nothing of it."""

    def __init__(self, threads: "DiskThreads", loop: "AbstractEventLoop | None") -> None:
        self._threads = threads
        self._loop = loop
        self._kernel: KernelSyncs | None = None

    def sync(self, descriptor: int, told: Callable[[int], None]) -> None:
        """fdatasync; `told` gets the number of the error, or 0, later and on the loop's thread.
        Never raises."""
        if self._loop is not None:
            self._ask_kernel(self._loop)
        if self._kernel is not None:
            self._kernel.sync(descriptor, told)
        else:
            self._on_thread(descriptor, told)

    def close(self) -> None:
        """Waits for those under way."""
        self._loop = None
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _ask_kernel(self, loop: "AbstractEventLoop") -> None:
        self._loop = None
        try:
            from sawlog.server.kernel_syncs import KernelSyncs  # brings ctypes along

            self._kernel = KernelSyncs(loop, self._on_thread)
        except (OSError, ImportError) as reason:  # both also where no descriptor is left
            logger.info("files are synced on threads", reason=str(reason))

    def _on_thread(self, descriptor: int, told: Callable[[int], None]) -> None:
        result = 0

        def synchronise() -> None:
            nonlocal result
            try:
                os.fdatasync(descriptor)
            except OSError as error:
                result = error.errno or -1

        def finished(broken: "DiskError | None") -> None:
            told(result if broken is None else -1)

        self._threads.run(synchronise, finished)
