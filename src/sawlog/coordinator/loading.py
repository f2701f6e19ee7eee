"""Bringing a machine to where its log ends, in steps that leave the loop free in between.

A coordinator's topic is compacted in meaning: the last record of a key is all that counts. So the
log is read first and only the last value of each key kept, in the order of the log; what is left is
taken apart and replayed. A long history of commits costs little more than reading it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sawlog.coordinator.records import UnknownRecord
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.log import EventLogger
from sawlog.core.ports import DiskError
from sawlog.protocol.batches import read_header
from sawlog.protocol.records import iterate

if TYPE_CHECKING:
    from sawlog.coordinator.plan import Machine
    from sawlog.coordinator.records import RecordFormat
    from sawlog.core.ports import Timer, TimerHandle
    from sawlog.replication.partition import Partition

log = EventLogger(__name__)

STEP_BYTES = 256 * 1024
STEP_RECORDS = 1_000
MAX_BATCH_BYTES = 256 * 1024 * 1024

Loaded = Callable[[KafkaError | None], None]


class Loading:
    """Calls `done` once, never from inside `begin`, and not at all after `stop`."""

    def __init__(
        self,
        partition: "Partition",
        records: "RecordFormat",
        machine: "Machine",
        timer: "Timer",
        done: Loaded,
    ) -> None:
        self._partition = partition
        self._records = records
        self._machine = machine
        self._timer = timer
        self._done = done
        self._position = partition.log.start_offset
        self._end = partition.log.end_offset
        self._last: dict[bytes, bytes | None] = {}
        self._survivors: Iterator[tuple[bytes, bytes | None]] = iter(())
        self._step: TimerHandle | None = None

    def begin(self) -> None:
        self._later(self._read)

    def stop(self) -> None:
        if self._step is not None:
            self._step.cancel()

    def _later(self, step: Callable[[], None]) -> None:
        self._step = self._timer.after(0, step)

    def _read(self) -> None:
        """One slice of the log into `_last`."""
        try:
            found = self._partition.log.read(
                self._position, STEP_BYTES, limit_offset=self._end, whole_first_batch=True
            )
            if found is None:
                self._survivors = iter([pair for pair in self._last.items() if pair[1] is not None])
                self._last = {}
                self._later(self._replay)
                return
            self._keep(memoryview(found.read()))
        except KafkaError as error:
            self._done(error)
            return
        except DiskError as error:
            self._done(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            return
        self._later(self._read)

    def _keep(self, batches: memoryview) -> None:
        """The last value of each key, and the keys in the order in which they were written last."""
        last = self._last
        position = 0
        while position < len(batches):
            try:
                header = read_header(batches, position)
            except KafkaError:
                break  # the slice ends inside a header
            end = position + header.size
            if end > len(batches):
                break
            if not header.is_control:
                batch = batches[position:end]
                for record in iterate(batch, max_decompressed_bytes=MAX_BATCH_BYTES):
                    if record.key is not None and record.offset >= self._position:
                        last.pop(record.key, None)
                        last[record.key] = record.value
            self._position = header.next_offset
            position = end

    def _replay(self) -> None:
        some = list(islice(self._survivors, STEP_RECORDS))
        for key, value in some:
            try:
                self._machine.replay(self._records.decode(key, value))
            except UnknownRecord as unknown:
                log.warning("unknown record", log=str(self._partition.name), record=str(unknown))
            except MalformedFrame as error:
                log.error("damaged record", log=str(self._partition.name), reason=str(error))
            except Exception:  # one record must not keep all groups from being served
                log.exception("a record cannot be replayed", log=str(self._partition.name))
        if some:
            self._later(self._replay)
        else:
            self._partition.when_committed(self._end, self._done)
