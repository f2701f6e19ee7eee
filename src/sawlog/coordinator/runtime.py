"""One partition of a coordinator's topic, led by this broker, and the machine that lives in it.

Promise: the machine has seen exactly the records of the log, each operation runs alone, and nobody
is answered before all that the answer rests on is committed. Where a commit fails, or a record that
is written cannot be applied, the machine is given up: what it believes is not what the log says.
Whoever made the shard is told, and may load another machine of what the log says then.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sawlog.coordinator.loader import Loading
from sawlog.coordinator.plan import Machine, Operation, Plan, Timers
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import BatchBuilder

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.core.ports import Clock, Timer, TimerHandle
    from sawlog.replication.partition import Partition

logger = EventLogger(__name__)

M = TypeVar("M", bound=Machine)
Answer = Callable[[Any], None]
Refuse = Callable[[KafkaError], None]

RETRY_MS = 500
"""A timer's operation that could not be written is tried again after this time."""

RELOAD_MS = 5_000
"""A log that failed may work again after this time: that files ran out, say, is soon over."""

LATE_MS = 250
GRACE_MS = 100
"""A timer that rings so late rings after a stall of the whole process. What came meanwhile, a
heartbeat among it, waits in the sockets: it is heard before anybody's time is said to be over."""


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


_ACTIVE = State.ACTIVE  # asked for by every operation


class CoordinatorRuntime(Generic[M]):
    """Invariants: `machine` is asked only while ACTIVE; all that was appended here has been applied
    to it; at most one timer is set for a key."""

    def __init__(
        self,
        partition: "Partition",
        records: "RecordFormat",
        make_machine: Callable[[Timers], M],
        *,
        clock: "Clock",
        timer: "Timer",
        broken: Callable[[], None] | None = None,
    ) -> None:
        """`broken` is called after the machine was given up, when another one may be loaded: at
        once where the machine broke, in a while where its log failed."""
        self.partition = partition
        self.state = State.LOADING
        self._records = records
        self._clock = clock
        self._timer = timer
        self._broken = broken
        self._timers: dict[object, TimerHandle] = {}
        self.machine = make_machine(self)
        self._loading = Loading(partition, records, self.machine, timer, self._loaded)

    def load(self) -> None:
        self._loading.begin()

    def _loaded(self, error: KafkaError | None) -> None:
        if self.state is not State.LOADING:
            return
        if error is not None:
            logger.error("coordinator cannot load", log=str(self.partition.name), reason=str(error))
            self._log_failed(error, KafkaError(ErrorCode.NOT_COORDINATOR))
            return
        self.state = State.ACTIVE
        self.machine.activate()

    def close(self, error: KafkaError) -> None:
        """Gives the partition up; whoever still waits hears `error`."""
        if self.state is State.CLOSED:
            return
        was_active = self.state is State.ACTIVE
        self.state = State.CLOSED
        self._loading.stop()
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        if was_active:
            self.machine.deactivate(error)

    def _log_failed(self, error: KafkaError, told: KafkaError) -> None:
        """Gives the machine up. Damage stays; from anything else the log may recover."""
        if self.state is State.CLOSED:
            return
        self.close(told)
        if self._broken is not None and error.code is not ErrorCode.CORRUPT_MESSAGE:
            self._timer.after(RELOAD_MS, self._broken)

    # Operations

    def check(self) -> None:
        """KafkaError where no operation can run now."""
        if self.state is _ACTIVE:
            return
        if self.state is State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def run(self, operation: Operation, answer: Answer, refuse: Refuse) -> None:
        """Calls `answer` with the plan's reply, unless that is None, when all is committed that the
        operation wrote or could see; else `refuse` with the error that a client is told."""
        try:
            self.check()
            plan = operation()
        except KafkaError as error:
            refuse(error)
            return
        if plan.entries:
            try:
                self._append(plan)
            except KafkaError as error:
                told = coordinator_error(error)
                if plan.settled is not None:
                    plan.settled(told)
                refuse(told)
                return
        if plan.again:
            self._timer.after(0, partial(self.run, operation, answer, refuse))
        elif plan.reply is not None or plan.settled is not None:
            end = self.partition.log.end_offset
            self.partition.when_committed(end, partial(self._settle, plan, answer, refuse))

    def _append(self, plan: Plan) -> None:
        builder = BatchBuilder()
        now_ms = self._clock.now_ms()
        for entry in plan.entries:
            key, value = self._records.encode(entry)
            builder.append(now_ms, key, value)
        limit = self.partition.log.config.max_message_bytes
        if builder.size > limit:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(plan.entries)} records take {builder.size} bytes; {limit} are allowed",
            )
        batch = memoryview(builder.finish())
        self.partition.append(batch, read_header(batch), is_awaited=not plan.again)
        try:
            self._apply(plan)
        except Exception as error:
            logger.exception("a coordinator broke", log=str(self.partition.name))
            gone = KafkaError(ErrorCode.NOT_COORDINATOR)
            self.close(gone)
            if self._broken is not None:
                self._broken()
            raise gone from error

    def _apply(self, plan: Plan) -> None:
        if plan.apply is not None:
            plan.apply()
        else:
            for entry in plan.entries:
                self.machine.replay(entry)

    def _settle(self, plan: Plan, answer: Answer, refuse: Refuse, error: KafkaError | None) -> None:
        told = None
        if error is not None:
            told = coordinator_error(error)
            self._log_failed(error, told)
        if plan.settled is not None:
            plan.settled(told)
        if told is not None:
            refuse(told)
        elif plan.reply is not None:
            answer(plan.reply)

    # Timers

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        self.cancel(key)
        due_ms = self._clock.monotonic_ms() + delay_ms
        self._timers[key] = self._timer.after(delay_ms, partial(self._ring, key, due_ms, operation))

    def cancel(self, key: object) -> None:
        handle = self._timers.pop(key, None)
        if handle is not None:
            handle.cancel()

    def is_set(self, key: object) -> bool:
        return key in self._timers

    def _ring(self, key: object, due_ms: float, operation: Operation) -> None:
        del self._timers[key]
        if self._clock.monotonic_ms() > due_ms + LATE_MS:
            self.set(key, GRACE_MS, operation)
            return

        def refused(error: KafkaError) -> None:
            logger.warning("timer operation failed", timer=str(key), reason=str(error))
            if self.state is State.ACTIVE and key not in self._timers:
                self.set(key, RETRY_MS, operation)

        try:
            self.run(operation, lambda _: None, refused)
        except Exception as error:  # a bug: whatever the timer was for must not be forgotten
            logger.exception("a timer's operation broke", timer=str(key))
            refused(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))


_TOLD = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """What a client is told when the coordinator's own log refuses."""
    code = _TOLD.get(error.code)
    return error if code is None else KafkaError(code, error.message)
