"""Bringing a machine to where its log ends, in steps that leave the loop free in between.

A coordinator's topic is compacted in meaning: the last record of a key is all that counts. So the
log is read first and only the last value of each key kept, in the order of the log; what is left is
taken apart and replayed. A long history of commits costs little more than reading it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import UnknownRecord
from sawlog.coordinator.last_values import keep_last
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.coordinator.last_values import Last
    from sawlog.coordinator.plan import Machine
    from sawlog.core.ports import Timer, TimerHandle
    from sawlog.replication.partition import Partition

logger = EventLogger(__name__)

STEP_BYTES = 256 * 1024
STEP_RECORDS = 1_000

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
        self._last: Last = {}
        self._survivors: Iterator[tuple[bytes, bytes]] = iter(())
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
                last = self._last.items()
                self._survivors = ((key, value) for key, value in last if value is not None)
                self._last = {}
                self._later(self._replay)
                return
            position = keep_last(found.read(), self._position, self._last)
            if position <= self._position:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no batch at offset {position}")
            self._position = position
        except KafkaError as error:
            self._done(error)
            return
        except DiskError as error:
            self._done(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            return
        self._later(self._read)

    def _replay(self) -> None:
        """The next survivors; those of the usual form go to the machine as they are written."""
        some = list(islice(self._survivors, STEP_RECORDS))
        take = self._machine.replay_encoded
        for key, value in some:
            try:
                if not take(key, value):
                    self._replay_one(key, value)
            except Exception:  # one record that we cannot bear must not close all groups beside it
                logger.exception(
                    "record not replayed", log=str(self._partition.name), key=key.hex()
                )
        if some:
            self._later(self._replay)
        else:
            self._partition.when_committed(self._end, self._done)

    def _replay_one(self, key: bytes, value: bytes) -> None:
        try:
            entry = self._records.decode(key, value)
        except UnknownRecord as unknown:
            logger.warning("unknown record", log=str(self._partition.name), record=str(unknown))
        except MalformedFrame as error:
            logger.error("damaged record", log=str(self._partition.name), reason=str(error))
        else:
            self._machine.replay(entry)
