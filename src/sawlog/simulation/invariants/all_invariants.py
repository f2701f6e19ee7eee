"""The invariants that hold after every event."""

from typing import TYPE_CHECKING

from sawlog.simulation.invariants.committed_records import CommittedRecords
from sawlog.simulation.invariants.follower_progress import RecordedProgress
from sawlog.simulation.invariants.in_sync_members import InSyncMembers
from sawlog.simulation.invariants.in_sync_replicas import InSyncReplicas
from sawlog.simulation.invariants.leader_epochs import EpochCache, LeaderEpochsIncrease
from sawlog.simulation.invariants.observer import Invariant
from sawlog.simulation.invariants.producer_states import RebuiltProducerStates
from sawlog.simulation.invariants.store_writes import StoreWrites
from sawlog.simulation.invariants.watermarks import Watermarks

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


def all_invariants(
    cluster: "SimulatedCluster", *, commits_on_flush: bool = True
) -> list[Invariant]:
    """New checkers for one run; they remember what they have seen of it."""
    return [
        CommittedRecords(),
        InSyncReplicas(commits_on_flush=commits_on_flush),
        InSyncMembers(cluster),
        Watermarks(),
        LeaderEpochsIncrease(),
        EpochCache(),
        RecordedProgress(cluster),
        RebuiltProducerStates(),
        StoreWrites(cluster),
    ]
