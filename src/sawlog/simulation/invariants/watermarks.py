"""Guarantees 6 and 19: a leader's watermark never goes back, and the last stable offset never
passes it.
"""

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation


class Watermarks(NoInvariant):
    def replica_changed(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if change.replica.last_stable_offset > now.high_watermark:
            raise Violation(
                "19",
                f"{change}: the last stable offset {change.replica.last_stable_offset} is above "
                f"the watermark {now.high_watermark}",
            )
        if before is None:
            return
        leads_on = change.leads and before.leader_epoch == now.leader_epoch
        if leads_on and now.high_watermark < before.high_watermark:
            raise Violation(
                "6",
                f"{change}: the watermark went back from {before.high_watermark} to "
                f"{now.high_watermark} in epoch {now.leader_epoch}",
            )
