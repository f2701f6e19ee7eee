"""Runs the machine of one partition of a coordinator's topic that this broker leads.

Operations run one at a time, and a reply leaves only when everything that it is based on is
committed. If a commit fails, or a written record cannot be applied, the machine no longer agrees
with the log: the runtime closes, and its owner may load a new one from the log.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sawlog.coordinator.loader import CoordinatorLoader
from sawlog.coordinator.plan import Machine, Operation, Plan, Timers
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.protocol.control_records import marker_batch
from sawlog.protocol.records import BatchBuilder

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.coordinator.partition_access import (
        OnCommitted,
        PartitionReader,
        PartitionWriter,
    )
    from sawlog.coordinator.plan import ProducerIdentity
    from sawlog.core.ids import ProducerId, TopicPartition
    from sawlog.core.ports import Clock, Timer, TimerHandle
    from sawlog.protocol.control_records import EndTransactionMarker
    from sawlog.storage.transaction_verification import VerificationGuard

logger = EventLogger(__name__)

M = TypeVar("M", bound=Machine)
R = TypeVar("R")
Refuse = Callable[[KafkaError], None]

RETRY_MS = 500
"""Delay before a timer's operation is retried that could not be written."""

RELOAD_MS = 5_000
"""Delay before a reload after the log failed: a lack of files or of space is often short."""

LATE_MS = 250
GRACE_MS = 100
"""A timer that fires more than LATE_MS late does so after a stall of the whole process. Heartbeats
that arrived during the stall are still in the sockets: they get GRACE_MS before sessions expire."""


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


_ACTIVE = State.ACTIVE  # read by every operation


class CoordinatorRuntime(Generic[M]):
    """Invariants: operations run only while ACTIVE; `machine` has applied every record below
    `_end_offset`, where the log ends for it; at most one timer is set for a key."""

    def __init__(
        self,
        writer: "PartitionWriter",
        reader: "PartitionReader",
        records: "RecordFormat",
        make_machine: Callable[[Timers], M],
        *,
        clock: "Clock",
        timer: "Timer",
        on_failure: "Callable[[CoordinatorRuntime[M]], None] | None" = None,
    ) -> None:
        """`on_failure` is called when this runtime has closed itself and another one may be loaded:
        at once if the machine failed, RELOAD_MS later if its log did."""
        self.state = State.LOADING
        self.name: TopicPartition = reader.name
        self._writer = writer
        self._records = records
        self._clock = clock
        self._timer = timer
        self._on_failure = on_failure
        self._timers: dict[object, TimerHandle] = {}
        self.machine = make_machine(self)
        self._loader = CoordinatorLoader(reader, records, self.machine, timer, self._loaded)
        self._end_offset = self._loader.end_offset

    # Life cycle

    def load(self) -> None:
        self._loader.begin()

    def _loaded(self, error: KafkaError | None) -> None:
        if error is None:
            self._writer.when_committed(self._end_offset, self._activate)
        else:
            self._activate(error)

    def _activate(self, error: KafkaError | None) -> None:
        if self.state is not State.LOADING:
            return
        if error is not None:
            logger.error("coordinator cannot load", log=str(self.name), reason=str(error))
            self._fail(error, KafkaError(ErrorCode.NOT_COORDINATOR))
            return
        self.state = State.ACTIVE
        self.machine.activate()

    def close(self, error: KafkaError) -> None:
        """Unload the partition; parked requests are answered with `error`."""
        if self.state is State.CLOSED:
            return
        was_active = self.state is State.ACTIVE
        self.state = State.CLOSED
        self._loader.stop()
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        if was_active:
            self.machine.deactivate(error)

    def _fail(self, error: KafkaError, client_error: KafkaError) -> None:
        """Close after an error of the log. Damage is permanent; other errors may pass."""
        if self.state is State.CLOSED:
            return
        self.close(client_error)
        if self._on_failure is not None and error.code is not ErrorCode.CORRUPT_MESSAGE:
            self._timer.after(RELOAD_MS, partial(self._on_failure, self))

    # Operations

    def check(self) -> None:
        """Raise KafkaError unless operations can run now."""
        if self.state is _ACTIVE:
            return
        if self.state is State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def run(
        self,
        operation: Callable[[], Plan[R]],
        answer: Callable[[R], None],
        refuse: Refuse,
        guard: "VerificationGuard | None" = None,
    ) -> None:
        """Run an operation. When all that it wrote or could see is committed, call `answer` with
        the plan's reply, unless that is None; on failure call `refuse` with the client's error.
        `guard` is that of `begin_verification`, for records of a transaction."""
        try:
            self.check()
            plan = operation()
        except KafkaError as error:
            refuse(error)
            return
        if plan.entries:
            try:
                self._append(plan, guard)
            except KafkaError as error:
                client_error = coordinator_error(error)
                if plan.on_committed is not None:
                    plan.on_committed(client_error)
                refuse(client_error)
                return
        if plan.run_again:
            self._timer.after(0, partial(self.run, operation, answer, refuse))
        elif plan.reply is not None or plan.on_committed is not None:
            committed = partial(self._committed, plan, answer, refuse)
            self._writer.when_committed(self._end_offset, committed)

    def _append(self, plan: Plan[Any], guard: "VerificationGuard | None") -> None:
        builder = BatchBuilder()
        now_ms = self._clock.now_ms()
        for entry in plan.entries:
            key, value = self._records.encode(entry)
            builder.append(now_ms, key, value)
        limit = self._writer.max_batch_bytes
        if builder.size > limit:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(plan.entries)} records take {builder.size} bytes; {limit} are allowed",
            )
        batch = memoryview(_finish(builder, plan.producer))
        self._end_offset = self._writer.append(batch, is_awaited=not plan.run_again, guard=guard)
        self._change(partial(self._apply, plan))

    def _apply(self, plan: Plan[Any]) -> None:
        if plan.apply is not None:
            plan.apply()
        elif plan.producer is not None:
            for entry in plan.entries:
                self.machine.replay_pending(plan.producer.producer_id, entry)
        else:
            for entry in plan.entries:
                self.machine.replay(entry)

    def _change(self, apply: Callable[[], None]) -> None:
        """Apply what was written; NOT_COORDINATOR if that fails, and the runtime is closed."""
        try:
            apply()
        except Exception as error:
            logger.exception("coordinator failed to apply its records", log=str(self.name))
            not_coordinator = KafkaError(ErrorCode.NOT_COORDINATOR)
            self.close(not_coordinator)
            if self._on_failure is not None:
                self._on_failure(self)
            raise not_coordinator from error

    def _committed(
        self,
        plan: Plan[R],
        answer: Callable[[R], None],
        refuse: Refuse,
        error: KafkaError | None,
    ) -> None:
        client_error = None
        if error is not None:
            client_error = coordinator_error(error)
            self._fail(error, client_error)
        if plan.on_committed is not None:
            plan.on_committed(client_error)
        if client_error is not None:
            refuse(client_error)
        elif plan.reply is not None:
            answer(plan.reply)

    # Transactions

    def begin_verification(
        self, producer: "ProducerIdentity", *, supports_epoch_bump: bool
    ) -> "VerificationGuard | None":
        """Return the guard for `run`, with which records of the producer's transaction may follow
        once its coordinator has confirmed it (KIP-890); None if the transaction is open in this
        partition already. KafkaError if the producer is fenced, or operations cannot run now."""
        self.check()
        try:
            return self._writer.begin_verification(
                producer.producer_id,
                producer.producer_epoch,
                supports_epoch_bump=supports_epoch_bump,
            )
        except KafkaError as error:
            raise coordinator_error(error) from error

    def end_transaction(
        self,
        producer_id: "ProducerId",
        producer_epoch: int,
        marker: "EndTransactionMarker",
        transaction_version: int,
        done: "OnCommitted",
    ) -> None:
        """Write the marker of a transaction and apply it; call `done` once, with None when it is
        committed. The error is that of the log: the transaction coordinator retries as with any
        other partition."""
        batch = marker_batch(marker, producer_id, producer_epoch, self._clock.now_ms())
        is_commit = not marker.is_abort
        try:
            self.check()
            self._end_offset = self._writer.append(
                memoryview(batch), is_awaited=True, transaction_version=transaction_version
            )
            self._change(partial(self.machine.end_transaction, producer_id, is_commit=is_commit))
        except KafkaError as error:
            done(error)
            return

        def committed(error: KafkaError | None) -> None:
            if error is not None:
                self._fail(error, coordinator_error(error))
            done(error)

        self._writer.when_committed(self._end_offset, committed)

    # Timers

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        self.cancel(key)
        due_ms = self._clock.monotonic_ms() + delay_ms
        self._timers[key] = self._timer.after(delay_ms, partial(self._fire, key, due_ms, operation))

    def cancel(self, key: object) -> None:
        handle = self._timers.pop(key, None)
        if handle is not None:
            handle.cancel()

    def is_set(self, key: object) -> bool:
        return key in self._timers

    def _fire(self, key: object, due_ms: float, operation: Operation) -> None:
        del self._timers[key]
        if self._clock.monotonic_ms() > due_ms + LATE_MS:
            self.set(key, GRACE_MS, operation)
            return

        def retry(error: KafkaError) -> None:
            logger.warning("timer operation failed", timer=str(key), reason=str(error))
            if self.state is State.ACTIVE and key not in self._timers:
                self.set(key, RETRY_MS, operation)

        try:
            self.run(operation, lambda _: None, retry)
        except Exception as error:  # a bug must not lose the timer
            logger.exception("timer operation raised", timer=str(key))
            retry(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))


def _finish(builder: BatchBuilder, producer: "ProducerIdentity | None") -> bytearray:
    if producer is None:
        return builder.finish()
    return builder.finish(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=True,
    )


_CLIENT_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """The error that a client gets when the coordinator's own log, or the verification of a
    transaction, reports `error`. After COORDINATOR_LOAD_IN_PROGRESS clients simply retry."""
    code = _CLIENT_ERRORS.get(error.code)
    return error if code is None else KafkaError(code, error.message)
