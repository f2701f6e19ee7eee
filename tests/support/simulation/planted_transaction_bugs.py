"""Bugs to plant in transactions: in the log, in their coordinator, and in the group coordinator."""

from functools import partial
from typing import Any

import pytest

from sawlog.broker.api.produce import _Verification
from sawlog.broker.transaction_markers import CoordinatorMarkers
from sawlog.groups.offsets.offset_table import OffsetTable
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.world.faults import FaultKind
from sawlog.storage.log import Log
from sawlog.storage.producer_state import ProducerStates
from sawlog.storage.producer_state_store import ProducerStateStore
from sawlog.transactions.transaction import Transaction
from support.simulation.planted_bug import bug
from support.simulation.planted_faults import repeated

COPIERS = ClusterProfile(transactional_clients=2)
PIPELINES = ClusterProfile(transactional_clients=2, pipelining_clients=2, older_clients=1)
KILLS = repeated(FaultKind.KILL)
SLOW = repeated(FaultKind.SLOW_NETWORK, duration_ms=1_500)
DEPOSALS = repeated(FaultKind.EXPIRED_SESSION, every_ms=1_000)
LATE_MS = 700
SHORT_MS = 8_000


@bug("19", profile=COPIERS, duration_ms=SHORT_MS, faults=KILLS, words="did not commit it")
def last_stable_offset_is_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.high_watermark))


@bug(
    "19",
    profile=COPIERS,
    duration_ms=SHORT_MS,
    faults=KILLS,
    words="is not in the transaction index",
)
def aborted_transaction_is_lost_in_recovery(patch: pytest.MonkeyPatch) -> None:
    replay = ProducerStateStore.replay

    def replay_without_index(self: ProducerStateStore, *arguments: Any) -> None:
        replay(self, *arguments)

    patch.setattr(ProducerStateStore, "replay", replay_without_index)


@bug("19", profile=COPIERS, duration_ms=SHORT_MS, faults=KILLS)
def offset_is_visible_before_its_marker(patch: pytest.MonkeyPatch) -> None:
    def put(self: OffsetTable, _producer_id: Any, group: str, offsets: Any) -> None:
        for topic, partition, committed in offsets:
            self.put(group, topic, partition, committed)

    patch.setattr(OffsetTable, "put_pending", put)


@bug("19", profile=COPIERS, duration_ms=SHORT_MS, faults=DEPOSALS)
def pending_offset_is_lost_when_the_coordinator_loads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetTable, "replay_pending", lambda *_: None)


@bug("19", profile=COPIERS, duration_ms=SHORT_MS, faults=KILLS, seed=2)
def open_transaction_is_forgotten_when_the_log_is_loaded(patch: pytest.MonkeyPatch) -> None:
    replay = ProducerStateStore.replay

    def replay_without_transactions(self: ProducerStateStore, *arguments: Any) -> Any:
        aborted = replay(self, *arguments)
        self.transactions.first_unstable = None
        return aborted

    patch.setattr(ProducerStateStore, "replay", replay_without_transactions)


@bug("19", "3", profile=COPIERS, duration_ms=SHORT_MS, faults=DEPOSALS)
def marker_of_a_deposed_coordinator_is_written(patch: pytest.MonkeyPatch) -> None:
    """A coordinator sends its markers again after another one was elected, and no partition checks
    their epochs."""

    late = set()

    def written(self: CoordinatorMarkers, prepared: Any) -> None:
        if prepared not in late:
            transaction = prepared.transaction
            self._machine.markers_written(transaction.transactional_id, transaction.producer)

    def cancel(self: CoordinatorMarkers) -> None:
        for prepared in self._prepared.values():
            late.add(prepared)
            partitions = prepared.transaction.partitions
            self._sender._timer.after(LATE_MS, partial(self._sender.send, prepared, partitions))

    patch.setattr(CoordinatorMarkers, "written", written)
    patch.setattr(CoordinatorMarkers, "cancel", cancel)
    patch.setattr(ProducerStates, "check_marker", lambda *_: None)


@bug("19", "3", profile=COPIERS, duration_ms=SHORT_MS, faults=SLOW)
def producer_epoch_is_reused(patch: pytest.MonkeyPatch) -> None:
    """Neither the end of a transaction nor InitProducerId begins an epoch."""
    to = Transaction._to

    def to_without_epoch(self: Transaction, state: Any, **changes: Any) -> Transaction:
        changes.pop("epoch", None)
        return to(self, state, **changes)

    patch.setattr(Transaction, "_to", to_without_epoch)
    patch.setattr(ProducerStates, "check_marker", lambda *_: None)


@bug("18", profile=PIPELINES, duration_ms=SHORT_MS, faults=[], words="refused as out of order")
def request_overtakes_one_that_is_verified(patch: pytest.MonkeyPatch) -> None:
    """A batch whose transaction has been begun while it waited is verified nevertheless, and later
    requests, which are not, are appended before it."""
    patch.setattr(
        _Verification,
        "_append_verified",
        lambda self: [each.replica.name for each in self._unverified],
    )
