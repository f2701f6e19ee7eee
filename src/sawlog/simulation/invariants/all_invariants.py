"""The invariants that hold after every event."""

from typing import TYPE_CHECKING

from sawlog.simulation.cluster_profile import Cleanup, ClusterProfile
from sawlog.simulation.invariants.aborted_transactions import AbortedTransactions
from sawlog.simulation.invariants.committed_records import CommittedRecords
from sawlog.simulation.invariants.compacted_records import CompactedRecords
from sawlog.simulation.invariants.follower_progress import RecordedProgress
from sawlog.simulation.invariants.in_sync_members import InSyncMembers
from sawlog.simulation.invariants.in_sync_replicas import InSyncReplicas
from sawlog.simulation.invariants.leader_epochs import EpochCache, LeaderEpochsIncrease
from sawlog.simulation.invariants.observer import Invariant
from sawlog.simulation.invariants.producer_states import RebuiltProducerStates
from sawlog.simulation.invariants.refused_epochs import RefusedEpochs
from sawlog.simulation.invariants.store_writes import StoreWrites
from sawlog.simulation.invariants.topic_lives import TopicLives
from sawlog.simulation.invariants.truncations import Truncations
from sawlog.simulation.invariants.watermarks import Watermarks

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster


def all_invariants(cluster: "SimulatedCluster", profile: ClusterProfile) -> list[Invariant]:
    """New checkers for one run; they remember what they have seen of it."""
    return [
        StoreWrites(cluster),
        TopicLives(),
        CommittedRecords(),
        CompactedRecords(),
        InSyncReplicas(cluster),
        InSyncMembers(cluster),
        Watermarks(),
        LeaderEpochsIncrease(),
        EpochCache(),
        Truncations(cluster),
        RecordedProgress(cluster),
        RefusedEpochs(),
        AbortedTransactions(),
        RebuiltProducerStates(is_cleaned=profile.cleanup is not Cleanup.NONE),
    ]
