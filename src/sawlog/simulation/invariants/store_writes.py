"""Guarantees 12 and 13: partition states change by compare-and-set, leaders by the controller only.

The write of a deposed controller, or one without a version, never lands.
"""

from sawlog.cluster import znodes
from sawlog.core.store import ANY_VERSION, Check, SetData
from sawlog.simulation.invariants.no_invariant import NoInvariant
from sawlog.simulation.invariants.observer import StateChange
from sawlog.simulation.invariants.violation import Violation


class StoreWrites(NoInvariant):
    def state_changed(self, change: StateChange) -> None:
        before, now = change.before, change.now
        if before is None:
            return
        name = change.partition.key.name
        path = znodes.state_path(*name)
        for operation in change.operations:
            if not isinstance(operation, SetData) or operation.path != path:
                continue
            if operation.version == ANY_VERSION:
                raise Violation("12", f"{name}: the state was written without a version")
        if (before.leader, before.leader_epoch) == (now.leader, now.leader_epoch):
            return
        checks = [op for op in change.operations if isinstance(op, Check)]
        if not any(check.path == znodes.CONTROLLER_EPOCH for check in checks):
            raise Violation("13", f"{name}: a leader was elected without the controller's epoch")
        if change.controller != change.session:
            raise Violation("13", f"{name}: a leader was elected by a deposed controller")
