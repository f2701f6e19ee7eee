"""Sends a connection's answers: buffers by sendmsg, slices of files by sendfile.

Nothing here waits. What the socket does not take leaves when the loop says that there is room; a
slice that is not in the page cache is sent from a thread; a long slice is sent in turns, so that
one reader does not hold up the others.
"""

import asyncio
import os
import socket
from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError
from sawlog.server.disk_threads import DiskThreads
from sawlog.server.file_slices import Outgoing, PageCache, PinnedSlice
from sawlog.server.send_queue import SMALL_SLICE_BYTES, OutgoingQueue, new_scratch

logger = EventLogger(__name__)

TURN_BYTES = 1 << 20
"""After so much it is another connection's turn; a slice is sent in pieces of this size."""

_TOO_SHORT = "the file ends before its slice does"
_MORE_FOLLOWS = socket.MSG_MORE

Transfer = Callable[[int, int, int, int], int]


class SendTools:
    """What the senders of a loop share. `transfer` is sendfile, and does what it does."""

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


class Sender:
    """One connection's outgoing bytes.

    While `is_busy`, the socket or the disk is waited for and `drained` will be called once
    everything has left. `broken` is called, once, when the other side is gone.
    """

    __slots__ = (
        "_broken",
        "_cold",
        "_descriptor",
        "_drained",
        "_is_closed",
        "_is_writer_added",
        "_queue",
        "_socket",
        "_tools",
        "is_busy",
        "made_progress",
    )

    def __init__(
        self,
        tools: SendTools,
        connected: socket.socket,
        drained: Callable[[], None],
        broken: Callable[[str], None],
    ) -> None:
        # For the whole life
        self._tools = tools
        self._socket = connected
        self._descriptor = connected.fileno()
        self._drained = drained
        self._broken = broken
        self._queue = OutgoingQueue(tools.page_cache, tools.scratch)
        # From moment to moment
        self.is_busy = False
        self.made_progress = False  # for whoever wants to know, and clears it
        self._is_writer_added = False
        self._is_closed = False
        self._cold: _ColdSend | None = None

    def send(self, parts: list[Outgoing]) -> None:
        """Sends the parts as far as it goes now; only while not busy."""
        if len(parts) != 1 or type(buffer := parts[0]) is not bytes:
            self._queue.add(parts)
            self._transmit()
            return
        # One small answer: the usual case, without detours.
        try:
            sent = self._socket.send(buffer)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(_reason(error))
            return
        self._tools.bytes_sent += sent
        if sent != len(buffer):
            self._queue.add((memoryview(buffer)[sent:],))
            self._wait_for_socket()

    def _transmit(self) -> None:
        """Sends what is in the queue, as far as it goes now."""
        try:
            is_done = self._transmit_turn()
        except BlockingIOError:
            is_done = False
        except OSError as error:
            self._broken(_reason(error))
            return
        except Exception:
            logger.exception("sending broke")
            self._broken("internal error")
            return
        if self._cold is not None or self._is_closed:
            return
        if is_done:
            self._stop_waiting()
        else:
            self._wait_for_socket()

    def close(self) -> None:
        """Closes the socket, as soon as no thread uses it, and gives the files back."""
        self._is_closed = True
        self._stop_waiting()
        self.is_busy = True
        if self._cold is None:
            self._finish_close()
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # gone already

    def _transmit_turn(self) -> bool:
        """Whether everything left."""
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
                self._tools.bytes_sent += sent
                self.made_progress = True
            if sent < wanted:
                return False
            turn += sent
        return not queue

    def _send_slice(self, piece: PinnedSlice, count: int) -> int:
        tools = self._tools
        if not tools.page_cache.holds(piece.descriptor, piece.position, count):
            self._send_cold(piece, count)
            return 0
        sent = tools.transfer(self._descriptor, piece.descriptor, piece.position, count)
        if sent == 0:
            raise OSError(_TOO_SHORT)
        return sent

    def _send_buffers(self) -> tuple[int, int]:
        """Everything up to the next long slice, with one call: bytes sent, bytes wanted."""
        gathered = self._queue.gather()
        buffers = gathered.buffers
        if not buffers:
            piece = self._queue.first_slice()
            assert piece is not None
            self._send_cold(piece, piece.remaining)
            return 0, piece.remaining
        flags = _MORE_FOLLOWS if gathered.is_slice_next else 0
        if len(buffers) == 1:
            return self._socket.send(buffers[0], flags), gathered.length
        return self._socket.sendmsg(buffers, (), flags), gathered.length

    def _send_cold(self, piece: PinnedSlice, count: int) -> None:
        """From here on the socket's sending side belongs to a thread, until it reports back."""
        self._stop_waiting()
        self.is_busy = True
        self._tools.cold_sends += 1
        self._cold = cold = _ColdSend(self._tools.transfer, self._descriptor, piece, count)
        self._tools.threads.run(cold.run, self._cold_sent)

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
            self._tools.bytes_sent += sent
            self.made_progress = True
        except BlockingIOError:
            self._wait_for_socket()
            return
        except OSError as error:
            self._broken(_reason(error))
            return
        self._go_on()

    def _go_on(self) -> None:
        self._transmit()
        if not self.is_busy and not self._is_closed:
            self._drained()

    def _wait_for_socket(self) -> None:
        self.is_busy = True
        if not self._is_writer_added:
            self._is_writer_added = True
            self._tools.loop.add_writer(self._descriptor, self._go_on)

    def _stop_waiting(self) -> None:
        self.is_busy = False
        if self._is_writer_added:
            self._is_writer_added = False
            self._tools.loop.remove_writer(self._descriptor)

    def _finish_close(self) -> None:
        self._queue.clear()
        self._socket.close()


class _ColdSend:
    """One transfer on a thread: nothing else looks at the socket or the slice meanwhile."""

    __slots__ = ("_count", "_descriptor", "_outcome", "_transfer", "piece")

    def __init__(self, transfer: Transfer, descriptor: int, piece: PinnedSlice, count: int) -> None:
        self._transfer = transfer
        self._descriptor = descriptor
        self.piece = piece
        self._count = count
        self._outcome: int | OSError = 0

    def run(self) -> None:
        try:
            self._outcome = self._transfer(
                self._descriptor, self.piece.descriptor, self.piece.position, self._count
            )
        except OSError as error:
            self._outcome = error

    def result(self) -> int:
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
