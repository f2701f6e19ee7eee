"""Loads a coordinator's machine from the log, in steps that leave the event loop free in between.

Only the last record of a key counts, as in any compacted topic. The loader first reads the whole
log and keeps the last value of each key, in log order; then it replays these. A long history of
commits costs little more than reading it. Records of committed transactions are like plain ones,
those of aborted transactions are ignored, and those of open ones are replayed as pending.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from sawlog.coordinator.coordinator_records import UnknownRecord
from sawlog.coordinator.last_values import LastValues
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.event_logger import EventLogger

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry, RecordFormat
    from sawlog.coordinator.partition_access import PartitionReader
    from sawlog.coordinator.plan import Machine
    from sawlog.core.ids import ProducerId
    from sawlog.core.ports import Timer, TimerHandle

logger = EventLogger(__name__)

STEP_BYTES = 256 * 1024
STEP_RECORDS = 1_000

_Replayed = tuple[bytes, bytes, "ProducerId | None"]
"""Key and value of a record, and the producer if its transaction is open."""

OnLoaded = Callable[[KafkaError | None], None]


class CoordinatorLoader:
    """Calls `on_loaded` once, never from inside `begin`, and not at all after `stop`."""

    def __init__(
        self,
        reader: "PartitionReader",
        records: "RecordFormat",
        machine: "Machine",
        timer: "Timer",
        on_loaded: OnLoaded,
    ) -> None:
        self._reader = reader
        self._records = records
        self._machine = machine
        self._timer = timer
        self._on_loaded = on_loaded
        self._position = reader.start_offset
        self.end_offset = reader.end_offset
        """The machine is loaded up to this offset, whether it is committed or not."""
        self._last = LastValues()
        self._to_replay: Iterator[_Replayed] = iter(())
        self._next_step: TimerHandle | None = None

    def begin(self) -> None:
        self._schedule(self._read)

    def stop(self) -> None:
        if self._next_step is not None:
            self._next_step.cancel()

    def _schedule(self, step: Callable[[], None]) -> None:
        self._next_step = self._timer.after(0, step)

    def _read(self) -> None:
        """Read one slice of the log into `_last`."""
        try:
            batches = self._reader.read(self._position, STEP_BYTES, limit_offset=self.end_offset)
            if batches is None:
                self._to_replay = in_replay_order(self._last)
                self._last = LastValues()
                self._schedule(self._replay)
                return
            position = self._last.read(batches, self._position)
            if position <= self._position:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no batch at offset {position}")
            self._position = position
        except KafkaError as error:
            self._on_loaded(error)
            return
        self._schedule(self._read)

    def _replay(self) -> None:
        """Replay the next records; the machine takes the frequent kinds without decoding."""
        some = list(islice(self._to_replay, STEP_RECORDS))
        replay_encoded = self._machine.replay_encoded
        for key, value, producer_id in some:
            try:
                if producer_id is not None:
                    self._replay_pending(key, value, producer_id)
                elif not replay_encoded(key, value):
                    self._replay_one(key, value)
            except Exception:  # one bad record must not make the other groups unavailable
                logger.exception("record not replayed", log=str(self._reader.name), key=key.hex())
        if some:
            self._schedule(self._replay)
        else:
            self._on_loaded(None)

    def _replay_one(self, key: bytes, value: bytes) -> None:
        entry = self._decoded(key, value)
        if entry is not None:
            self._machine.replay(entry)

    def _replay_pending(self, key: bytes, value: bytes, producer_id: "ProducerId") -> None:
        entry = self._decoded(key, value)
        if entry is not None:
            self._machine.replay_pending(producer_id, entry)

    def _decoded(self, key: bytes, value: bytes) -> "Entry | None":
        try:
            return self._records.decode(key, value)
        except UnknownRecord as unknown:
            logger.warning("unknown record", log=str(self._reader.name), record=str(unknown))
        except MalformedFrame as error:
            logger.error("damaged record", log=str(self._reader.name), reason=str(error))
        return None


def in_replay_order(last: LastValues) -> Iterator[_Replayed]:
    """Yield what a machine replays to get the state of the log.

    A superseded pending value comes before the value that superseded it. Its own content is lost
    and has no effect any more, so it is replayed with that value. Pending values come last, so that
    the frequent kinds are replayed without decoding.
    """
    superseded: list[_Replayed] = []
    superseding: dict[bytes, bytes] = {}
    effective: list[_Replayed] = []
    for key in last.pending.keys:
        for producer_id, value in last.pending.of_key(key).items():
            if value is not None:
                effective.append((key, value, producer_id))
            elif (later := last.values.get(key)) is not None:
                superseded.append((key, later, producer_id))
                superseding[key] = later
    plain = (
        (key, value, None)
        for key, value in last.values.items()
        if value is not None and key not in superseding
    )
    return chain(
        plain, superseded, ((key, value, None) for key, value in superseding.items()), effective
    )
