"""Sends a connection's responses: buffers with sendmsg, slices of log files with sendfile.

No call blocks. Bytes that the socket does not accept are sent when the loop reports it writable; a
slice that is not in the page cache is sent from a thread; a long slice is sent in turns, so that
one consumer does not delay the others.
"""

import asyncio
import os
import socket
from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError
from sawlog.server.disk_threads import DiskThreads
from sawlog.server.file_slices import Outgoing, PageCache, PinnedSlice
from sawlog.server.send_queue import SMALL_SLICE_BYTES, SendQueue, new_scratch

logger = EventLogger(__name__)

TURN_BYTES = 1 << 20
"""After this many bytes it is another connection's turn; also the largest piece of a slice."""

_TOO_SHORT = "the log segment is shorter than the slice to send"
_MORE_FOLLOWS = socket.MSG_MORE

Transfer = Callable[[int, int, int, int], int]


class SendResources:
    """Resources that all senders of a loop share. `transfer` is sendfile; tests replace it."""

    __slots__ = ("bytes_sent", "cold_sends", "loop", "page_cache", "scratch", "threads", "transfer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: DiskThreads,
        page_cache: PageCache,
        transfer: Transfer = os.sendfile,
    ) -> None:
        self.loop = loop
        self.threads = threads
        self.page_cache = page_cache
        self.transfer = transfer
        self.scratch = new_scratch()
        self.bytes_sent = 0
        self.cold_sends = 0


class ResponseSender:
    """One connection's outgoing bytes.

    While it `is_busy`, it waits for the socket or the disk, and calls `drained` when everything is
    sent. It calls `failed` once if the connection is lost.
    """

    __slots__ = (
        "_cold",
        "_descriptor",
        "_drained",
        "_failed",
        "_is_closed",
        "_is_writer_added",
        "_queue",
        "_resources",
        "_socket",
        "is_busy",
        "made_progress",
    )

    def __init__(
        self,
        resources: SendResources,
        connected: socket.socket,
        drained: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        # Constant
        self._resources = resources
        self._socket = connected
        self._descriptor = connected.fileno()
        self._drained = drained
        self._failed = failed
        self._queue = SendQueue(resources.page_cache, resources.scratch)
        # Changes with responses
        self.is_busy = False
        self.made_progress = False  # cleared by the connection
        self._is_writer_added = False
        self._is_closed = False
        self._cold: _ColdSend | None = None

    def send(self, parts: list[Outgoing]) -> None:
        """Send as much as the socket accepts now; not to be called while busy."""
        if len(parts) != 1 or type(buffer := parts[0]) is not bytes:
            self._queue.add(parts)
            self._transmit()
            return
        # Fast path for the usual case: one small response
        try:
            sent = self._socket.send(buffer)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._failed(_reason(error))
            return
        self._resources.bytes_sent += sent
        if sent != len(buffer):
            self._queue.add((memoryview(buffer)[sent:],))
            self._wait_for_socket()

    def _transmit(self) -> None:
        """Send from the queue as much as the socket accepts now."""
        try:
            is_done = self._transmit_turn()
        except BlockingIOError:
            is_done = False
        except OSError as error:
            self._failed(_reason(error))
            return
        except Exception:
            logger.exception("exception while sending a response")
            self._failed("internal error")
            return
        if self._cold is not None or self._is_closed:
            return
        if is_done:
            self._stop_waiting()
        else:
            self._wait_for_socket()

    def close(self) -> None:
        """Close the socket, when no thread uses it, and release the files."""
        self._is_closed = True
        self._stop_waiting()
        self.is_busy = True
        if self._cold is None:
            self._finish_close()
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # disconnected already

    def _transmit_turn(self) -> bool:
        """Send one turn's worth; return whether the queue is empty."""
        queue = self._queue
        turn = 0
        while queue and turn < TURN_BYTES:
            piece = queue.first_slice()
            if piece is not None and piece.remaining > SMALL_SLICE_BYTES:
                wanted = min(piece.remaining, TURN_BYTES)
                sent = self._send_slice(piece, wanted)
            else:
                sent, wanted = self._send_buffers()
            if sent:
                queue.consume(sent)
                self._resources.bytes_sent += sent
                self.made_progress = True
            if sent < wanted:
                return False
            turn += sent
        return not queue

    def _send_slice(self, piece: PinnedSlice, count: int) -> int:
        resources = self._resources
        if not resources.page_cache.holds(piece.descriptor, piece.position, count):
            self._send_cold(piece, count)
            return 0
        sent = resources.transfer(self._descriptor, piece.descriptor, piece.position, count)
        if sent == 0:
            raise OSError(_TOO_SHORT)
        return sent

    def _send_buffers(self) -> tuple[int, int]:
        """Send up to the next long slice with one call; return the bytes sent and the bytes
        given."""
        vector = self._queue.gather()
        buffers = vector.buffers
        if not buffers:
            piece = self._queue.first_slice()
            assert piece is not None
            self._send_cold(piece, piece.remaining)
            return 0, piece.remaining
        flags = _MORE_FOLLOWS if vector.is_slice_next else 0
        if len(buffers) == 1:
            return self._socket.send(buffers[0], flags), vector.length
        return self._socket.sendmsg(buffers, (), flags), vector.length

    def _send_cold(self, piece: PinnedSlice, count: int) -> None:
        """Send from a thread, which alone uses the socket's sending side until `_cold_sent`."""
        self._stop_waiting()
        self.is_busy = True
        self._resources.cold_sends += 1
        self._cold = cold = _ColdSend(self._resources.transfer, self._descriptor, piece, count)
        self._resources.threads.run(cold.run, self._cold_sent)

    def _cold_sent(self, failure: DiskError | None) -> None:
        cold = self._cold
        assert cold is not None
        self._cold = None
        self.is_busy = False
        if self._is_closed:
            self._finish_close()
            return
        try:
            if failure is not None:
                raise OSError(str(failure))
            sent = cold.result()
            if sent == 0:
                raise OSError(_TOO_SHORT)
            self._queue.consume(sent)
            self._resources.bytes_sent += sent
            self.made_progress = True
        except BlockingIOError:
            self._wait_for_socket()
            return
        except OSError as error:
            self._failed(_reason(error))
            return
        self._resume()

    def _resume(self) -> None:
        self._transmit()
        if not self.is_busy and not self._is_closed:
            self._drained()

    def _wait_for_socket(self) -> None:
        self.is_busy = True
        if not self._is_writer_added:
            self._is_writer_added = True
            self._resources.loop.add_writer(self._descriptor, self._resume)

    def _stop_waiting(self) -> None:
        self.is_busy = False
        if self._is_writer_added:
            self._is_writer_added = False
            self._resources.loop.remove_writer(self._descriptor)

    def _finish_close(self) -> None:
        self._queue.clear()
        self._socket.close()


class _ColdSend:
    """One transfer on a thread, which alone uses the socket and the slice meanwhile."""

    __slots__ = ("_count", "_descriptor", "_result", "_transfer", "piece")

    def __init__(self, transfer: Transfer, descriptor: int, piece: PinnedSlice, count: int) -> None:
        self._transfer = transfer
        self._descriptor = descriptor
        self.piece = piece
        self._count = count
        self._result: int | OSError = 0

    def run(self) -> None:
        try:
            self._result = self._transfer(
                self._descriptor, self.piece.descriptor, self.piece.position, self._count
            )
        except OSError as error:
            self._result = error

    def result(self) -> int:
        if isinstance(self._result, OSError):
            raise self._result
        return self._result


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
