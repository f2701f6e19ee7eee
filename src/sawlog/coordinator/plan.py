"""What a coordinator's machine is asked and what it says: operations and plans.

An operation looks at the machine's state and returns a plan; it changes nothing that a restart
would bring back. The records of a plan are appended as one batch, all or none; then, and only then,
the state changes; and when they are committed the reply goes out. So a reply tells nothing that can
be lost, and a failed append leaves everything as it was.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import KafkaError


class Plan(NamedTuple):
    """`reply` None: whoever asked is answered later, by the machine.

    `apply` makes the change that the entries tell, for a machine that holds more than its records
    do; without it the entries are replayed. `settled` hears how it ended, once: None when all is
    committed, else the error that callers are told. `again`: the operation is run once more when
    those that came with it have been, and only that answers.
    """

    reply: Any = None
    entries: Sequence[Entry] = ()
    apply: Callable[[], None] | None = None
    settled: Callable[[KafkaError | None], None] | None = None
    again: bool = False


Operation = Callable[[], Plan]
"""May raise KafkaError: then whoever asked is told so, and nothing has changed."""


class Machine(Protocol):
    """The state of one partition of a coordinator's topic."""

    def replay(self, entry: Entry) -> None:
        """One record, at load or after its append. Never raises, never sets a timer.

        At load only the last record of each key comes, in the order of the log, and no tombstones;
        so a record's effect may not lean on one of another key that came before it.
        """
        ...

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        """At load, asked first: takes a record as it is written, where it is of a kind that comes
        by the hundred thousand. False: it is taken apart, and replayed."""
        ...

    def activate(self) -> None:
        """All is loaded: from now on there are operations. Sets the timers that the state needs."""
        ...

    def deactivate(self, error: KafkaError) -> None:
        """It is over here: whoever still waits for the machine's answer is told `error`."""
        ...


class Timers(Protocol):
    """A machine's clockwork: one timer for each key, which runs an operation."""

    def set(self, key: object, delay_ms: int, operation: Operation) -> None:
        """Instead of any timer that has this key. An operation that cannot be written is tried
        again a little later."""
        ...

    def cancel(self, key: object) -> None: ...

    def is_set(self, key: object) -> bool: ...
