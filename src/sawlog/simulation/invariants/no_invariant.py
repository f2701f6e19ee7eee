"""The base of invariants that look at one kind of change only."""

from sawlog.simulation.invariants.observer import ReplicaChange, StateChange, StoreWrite


class NoInvariant:
    """Accepts every change."""

    def replica_changed(self, change: ReplicaChange) -> None:
        """Accept the change."""

    def state_changed(self, change: StateChange) -> None:
        """Accept the change."""

    def store_written(self, write: StoreWrite) -> None:
        """Accept the write."""
