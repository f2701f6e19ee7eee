"""The transaction coordinator of this broker: the transactional ids of the partitions of
`__transaction_state` that this broker leads."""

from functools import partial
from typing import TYPE_CHECKING

from sawlog.broker.topic_coordinator import TopicCoordinator
from sawlog.cluster.internal_topics import TRANSACTION_STATE
from sawlog.coordinator.runtime import State
from sawlog.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.transaction_markers import TransactionMarkers
    from sawlog.cluster.producer_ids import ProducerIds
    from sawlog.cluster.topics import Topics
    from sawlog.coordinator.coordinator_records import RecordFormat
    from sawlog.coordinator.plan import Timers
    from sawlog.coordinator.runtime import Refuse
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import ProducerId
    from sawlog.core.ports import Clock, Timer
    from sawlog.core.store import Store
    from sawlog.replication.replica import Replica
    from sawlog.storage.log_directory import LogDirectory
    from sawlog.transactions.end_transaction import EndRequest
    from sawlog.transactions.transaction import Producer
    from sawlog.transactions.transaction_machine import (
        EndReply,
        InitReply,
        TransactionMachine,
    )


class TransactionCoordinator(TopicCoordinator["TransactionMachine"]):
    """The coordinator of `__transaction_state`. Its epoch, which markers carry, is the leader epoch
    of the partition: a leader of data refuses markers of an earlier one."""

    def __init__(
        self,
        config: "BrokerConfig",
        metadata: "MetadataCache",
        topics: "Topics",
        directory: "LogDirectory",
        store: "Store",
        *,
        clock: "Clock",
        timer: "Timer",
        producer_ids: "ProducerIds",
        markers: "Callable[[], TransactionMarkers]",
    ) -> None:
        """`markers` is called with the first partition that is led here."""
        super().__init__(
            TRANSACTION_STATE, metadata, topics, directory, store, clock=clock, timer=timer
        )
        self._config = config
        self._producer_ids = producer_ids
        self._make_markers = markers
        self._markers: TransactionMarkers | None = None

    def _record_format(self) -> "RecordFormat":
        from sawlog.transactions.transaction_records import TRANSACTION_RECORDS

        return TRANSACTION_RECORDS

    def _make_machine(self, partition: "Replica", timers: "Timers", /) -> "TransactionMachine":
        from sawlog.transactions.context import TransactionContext
        from sawlog.transactions.transaction_machine import TransactionMachine

        if self._markers is None:
            self._markers = self._make_markers()
        markers = self._markers.of_coordinator(partition.leader_epoch)
        machine = TransactionMachine(TransactionContext(self._clock, timers, self._config, markers))
        markers.attach(machine)
        return machine

    def close(self) -> None:
        super().close()
        if self._markers is not None:
            self._markers.close()

    def check_loaded(self) -> None:
        """COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded."""
        if any(runtime.state is State.LOADING for runtime in self.runtimes.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: "Producer | None",
        answer: "Callable[[InitReply], None]",
        refuse: "Refuse",
    ) -> None:
        """As `TransactionMachine.init_producer_id`, with a new producer id if one is needed."""

        def run(new_producer_id: "ProducerId | None" = None) -> None:
            self.ask(
                transactional_id,
                lambda machine: machine.init_producer_id(
                    transactional_id, timeout_ms, expected, new_producer_id
                ),
                replied,
                refuse,
            )

        def replied(reply: "InitReply") -> None:
            if reply.needs_producer_id:
                self._producer_ids.next(partial(_allocated, run, refuse))
            else:
                answer(reply)

        run()

    def end(
        self,
        transactional_id: str,
        request: "EndRequest",
        answer: "Callable[[EndReply], None]",
        refuse: "Refuse",
    ) -> None:
        """As `TransactionMachine.end`, with a new producer id if one is needed."""

        def run(new_producer_id: "ProducerId | None" = None) -> None:
            self.ask(
                transactional_id,
                lambda machine: machine.end(transactional_id, request, new_producer_id),
                replied,
                refuse,
            )

        def replied(reply: "EndReply") -> None:
            if reply.needs_producer_id:
                self._producer_ids.next(partial(_allocated, run, refuse))
            else:
                answer(reply)

        run()


def _allocated(
    run: "Callable[[ProducerId], None]", refuse: "Refuse", result: "ProducerId | KafkaError"
) -> None:
    if isinstance(result, KafkaError):
        refuse(result)
    else:
        run(result)
