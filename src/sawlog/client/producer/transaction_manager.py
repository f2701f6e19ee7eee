"""The transactions of one producer: their state, the producer's identity, and the coordinator.

The sender asks it before it sends batches, and tells it about batches that fail. Transaction
version 2 (KIP-890) is used if the coordinator's broker has finalized it; the version is fixed from
the beginning of a transaction to its end.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sawlog.client.admin.group_offsets import Committed, GroupMetadata
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import Coordinators, CoordinatorType
from sawlog.client.net.retries import retry
from sawlog.client.producer.sequence_numbers import ProducerIdentity, SequenceNumbers
from sawlog.client.producer.transaction_errors import (
    TransactionError,
    TransactionFatal,
    Verdict,
    transaction_error,
    verdict_of_batch,
    verdict_of_request,
)
from sawlog.client.producer.transaction_requests import (
    LAST_PRODUCE_VERSION_1,
    NO_IDENTITY,
    OpenTransaction,
    add_group,
    add_partitions,
    commit_offsets_in,
    end_transaction,
    has_version_2,
    init_transactional_id,
)
from sawlog.client.producer.transaction_state import (
    DROPPING,
    IllegalTransactionEvent,
    TransactionEvent,
    TransactionState,
    next_state,
)
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000

Result = TypeVar("Result")


class TransactionManager:
    """Each transaction is ended by the identity that began it.

    For one thread at a time: the producer's lock is held. `sleep_s` waits between two tries, and
    may release that lock.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        *,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        if not transactional_id:
            raise ValueError("the transactional id is empty; name one, the same in every run")
        if timeout_ms < 1:
            raise ValueError(f"transaction_timeout_ms is at least 1, not {timeout_ms}")
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._sleep_s = sleep_s
        self._coordinators = Coordinators(cluster, CoordinatorType.TRANSACTION)
        self._groups = Coordinators(cluster, CoordinatorType.GROUP)
        self._state = TransactionState.UNINITIALIZED
        self._identity = NO_IDENTITY
        self.sequences = SequenceNumbers(lambda: self._identity)
        self._has_version_2 = False  # of the transaction that is open or comes next
        self._offered_version_2 = False  # by the broker that answered last
        # Of the open transaction
        self._is_started = False  # the coordinator may know of it
        self._added_partitions: set[TopicPartition] = set()
        self._added_groups: set[str] = set()
        self._has_sequence_gap = False
        self._error: TransactionError | None = None

    # State

    @property
    def state(self) -> TransactionState:
        return self._state

    @property
    def has_ended(self) -> bool:
        """Whether no transaction is open."""
        return self._state in (TransactionState.UNINITIALIZED, TransactionState.READY)

    @property
    def drop_error(self) -> TransactionError | None:
        """The error of batches that are not in flight, if they are to be dropped."""
        if self._state not in DROPPING:
            return None
        return self._error or TransactionError(
            "the transaction was aborted before the record was sent"
        )

    @property
    def open_transaction(self) -> OpenTransaction:
        """What another process needs to end this transaction."""
        return OpenTransaction(self.transactional_id, self._identity, self._has_version_2)

    def check_open(self) -> None:
        """Raise the error of a failed transaction; IllegalTransactionEvent if none is open."""
        if self._state is TransactionState.IN_TRANSACTION:
            return
        if self._error is not None:
            raise self._error
        raise IllegalTransactionEvent(
            f"there is no open transaction, the producer is {self._state.value}; call begin first"
        )

    # Beginning and end

    def init(self) -> None:
        """Get an identity: fence earlier producers of this id and abort their transaction."""
        if self._state is TransactionState.FATAL_ERROR and self._error is not None:
            raise self._error
        if self._state is not TransactionState.UNINITIALIZED:
            return
        identity = self._ask_coordinator(
            f"the transactional id {self.transactional_id!r} cannot be used",
            lambda connection: init_transactional_id(
                connection, self.transactional_id, self._timeout_ms
            ),
        )
        self._move(TransactionEvent.INITIALIZE)
        self._use(identity)

    def begin(self) -> None:
        self.init()
        self._move(TransactionEvent.BEGIN)

    def start_commit(self) -> None:
        """Refuse records from now on; all batches must be done before `finish`."""
        if self._error is not None and self._state in DROPPING:
            raise self._error
        self._move(TransactionEvent.COMMIT)

    def start_abort(self) -> None:
        """Drop all batches that are not in flight; all must be done before `finish`."""
        if isinstance(self._error, TransactionFatal):
            raise self._error
        self._move(TransactionEvent.ABORT)

    def finish(self) -> None:
        """End the transaction that `start_commit` or `start_abort` began to end."""
        if self._state is TransactionState.ABORTABLE_ERROR or (
            self._state is TransactionState.FATAL_ERROR
        ):
            assert self._error is not None
            raise self._error  # a batch failed
        commits = self._state is TransactionState.COMMITTING
        identity = self._identity
        if self._is_started and not self._is_expired:
            what = f"the transaction of {self.transactional_id!r} was not "
            identity = self._ask_coordinator(
                what + ("committed" if commits else "aborted"),
                lambda connection: end_transaction(
                    connection, self.open_transaction, commits=commits
                ),
            )
        if self._is_expired or (self._has_sequence_gap and not self._has_version_2):
            identity = self._ask_coordinator(
                f"the transactional id {self.transactional_id!r} got no new epoch",
                lambda connection: init_transactional_id(
                    connection, self.transactional_id, self._timeout_ms, self._identity
                ),
            )
        self._move(TransactionEvent.END)
        self._use(identity)

    # Records and offsets

    @property
    def highest_produce_version(self) -> int | None:
        return None if self._has_version_2 else LAST_PRODUCE_VERSION_1

    def before_send(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction before their batches are sent, with one try."""
        if self._has_version_2:
            self._is_started = True
            return
        new = set(partitions) - self._added_partitions
        if not new:
            return
        try:
            connection = self._coordinators.connection(self.transactional_id)
            add_partitions(connection, self.open_transaction, new)
        except (KafkaError, *UNANSWERED) as error:
            self._before_retry(self._coordinators, self.transactional_id, error)
            raise
        self._is_started = True
        self._added_partitions |= new

    def batch_failed(self, error: Exception, *, had_sequence: bool) -> None:
        """Fail the transaction, unless it is being aborted anyway."""
        self._has_sequence_gap = self._has_sequence_gap or had_sequence
        if self._state not in DROPPING:
            self._fail(verdict_of_batch(error), "a record of the transaction was lost", error)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | Committed], group: GroupMetadata
    ) -> None:
        """Commit offsets of a group with the transaction."""
        self.check_open()
        for partition, offset in offsets.items():
            number = offset if isinstance(offset, int) else offset.offset
            if number < 0:
                raise ValueError(f"{partition}: an offset must not be negative, but is {number}")
        what = f"the offsets of the group {group.group!r} were not added to the transaction"
        if not self._has_version_2 and group.group not in self._added_groups:
            self._ask_coordinator(
                what, lambda connection: add_group(connection, self.open_transaction, group.group)
            )
            self._added_groups.add(group.group)
        self._is_started = True
        self._ask(
            self._groups,
            group.group,
            what,
            lambda connection: commit_offsets_in(connection, self.open_transaction, group, offsets),
        )

    # Requests

    def _ask_coordinator(self, what: str, send: Callable[[Connection], Result]) -> Result:
        def send_and_learn(connection: Connection) -> Result:
            result = send(connection)
            self._offered_version_2 = has_version_2(connection)
            return result

        return self._ask(self._coordinators, self.transactional_id, what, send_and_learn)

    def _ask(
        self,
        coordinators: Coordinators,
        key: str,
        what: str,
        send: Callable[[Connection], Result],
    ) -> Result:
        """Send until there is a response; an error changes the state and is raised by its class."""
        try:
            return retry(
                lambda: send(coordinators.connection(key)),
                self._cluster.deadline(),
                before_retry=lambda error: self._before_retry(coordinators, key, error),
                sleep_s=self._sleep_s,
            )
        except (KafkaError, ClientError) as error:
            coordinators.forget(key)
            raise self._fail(verdict_of_request(error), what, error) from error

    def _before_retry(self, coordinators: Coordinators, key: str, error: Exception) -> None:
        is_busy = isinstance(error, KafkaError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        if not is_busy:
            coordinators.forget(key)

    # Changes of the state

    def _fail(self, verdict: Verdict, what: str, error: Exception) -> TransactionError:
        if verdict is Verdict.ABORT and self.has_ended:
            verdict = Verdict.GIVE_UP
        made = transaction_error(verdict, what, error)
        if verdict is not Verdict.RETRY:
            is_abortable = verdict is Verdict.ABORT
            self._move(TransactionEvent.FAIL if is_abortable else TransactionEvent.FAIL_FOR_GOOD)
            self._error = made
        return made

    @property
    def _is_expired(self) -> bool:
        """Whether the coordinator has forgotten the transactional id."""
        return self._error is not None and self._error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def _move(self, event: TransactionEvent) -> None:
        self._state = next_state(self._state, event)

    def _use(self, identity: ProducerIdentity) -> None:
        """Reset what belongs to the transaction that has ended."""
        if identity != self._identity:
            self._identity = identity
            self.sequences.start_over()
        self._has_version_2 = self._offered_version_2
        self._is_started = self._has_sequence_gap = False
        self._added_partitions.clear()
        self._added_groups.clear()
        self._error = None
