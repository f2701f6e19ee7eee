"""The contract between the coordinator runtime and its machine: operations return plans.

An operation reads the machine's state and returns a plan; it changes nothing that a reload would
restore. The runtime appends the plan's records as one batch, all or none; only then the state
changes, and the reply leaves when the records are committed. So a crash cannot take back what a
reply said, and a failed append leaves the state as it was.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import KafkaError
from sawlog.core.ids import ProducerId

R = TypeVar("R")


class ProducerIdentity(NamedTuple):
    """A producer with a transactional id, as its requests name it."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class Plan(NamedTuple, Generic[R]):
    """The result of an operation: the reply, and the records to append before it is sent.

    reply: None if the machine itself answers the request later.
    entries: the records, written as one batch.
    apply: makes the change that the entries describe, for a machine whose state is more than its
        records; without it the entries are replayed.
    on_committed: called once, with None when all is committed, else with the client's error.
    run_again: once the entries are appended, and after the requests that arrived meanwhile, the
        operation runs again; only that run replies.
    producer: the entries are part of this producer's open transaction: they are written as a
        transactional batch, and are pending until its marker.
    """

    reply: R | None = None
    entries: Sequence[Entry] = ()
    apply: Callable[[], None] | None = None
    on_committed: Callable[[KafkaError | None], None] | None = None
    run_again: bool = False
    producer: ProducerIdentity | None = None


Operation = Callable[[], Plan[Any]]
"""May raise KafkaError: the caller gets the error, and nothing has changed."""


class Machine(Protocol):
    """The state of one partition of a coordinator's topic."""

    def replay(self, entry: Entry) -> None:
        """Apply one record, during the load or after its append. Never raises or sets a timer.

        The load replays only the last record of each key, in log order, and no tombstones. The
        effect of a record must therefore not depend on an earlier record of another key.
        """
        ...

    def replay_pending(self, producer_id: ProducerId, entry: Entry) -> None:
        """Apply one record of an open transaction, which has no effect until `end_transaction`.

        A plain record, and one of a transaction that is committed, supersedes all records of the
        same key that are before it in the log, pending ones too. The load replays the records of
        committed transactions as plain ones, and no records of aborted ones.
        """
        ...

    def end_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Apply a marker: the pending records of this producer, if it has any, take effect, or they
        are dropped."""
        ...

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        """Replay a record from its bytes during the load, for kinds that come by the hundred
        thousand. False: the loader decodes the record and calls `replay`."""
        ...

    def activate(self) -> None:
        """The load is complete and operations follow: set the timers that the state needs."""
        ...

    def deactivate(self, error: KafkaError) -> None:
        """The partition is unloaded: answer all parked requests with `error`."""
        ...


class Timers(Protocol):
    """The timers of a machine: at most one for each key; each runs an operation."""

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        """Set the timer, in place of one that has this key. An operation whose records cannot be
        written is retried a little later."""
        ...

    def cancel(self, key: object) -> None: ...

    def is_set(self, key: object) -> bool: ...
