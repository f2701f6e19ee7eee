"""Guarantees 6 and 11: a leader's watermark never goes back, and truncation spares what is below.

A truncation never removes a batch that was committed and that the replica had.
"""

from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import ReplicaChange
from sawlog.simulation.invariants.violation import Violation


class Watermarks(NoInvariant):
    def replica_changed(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if before is None:
            return
        leads_on = change.leads and before.leader_epoch == now.leader_epoch
        if leads_on and now.high_watermark < before.high_watermark:
            raise Violation(
                "6",
                f"{change}: the watermark went back from {before.high_watermark} to "
                f"{now.high_watermark} in epoch {now.leader_epoch}",
            )
        if now.truncations != before.truncations and change.is_in_sync:
            committed = change.partition.high_watermark
            if now.end_offset < min(committed, before.end_offset):
                raise Violation(
                    "11",
                    f"{change}: truncated to {now.end_offset}, below the watermark {committed}",
                )
