"""Imports, ahead of time, the code that a broker needs when it begins to lead partitions.

Handlers and the group coordinator are imported at their first use, so that a start is short. In a
cluster that first use may be a failover, while clients wait: the import of the coordinator alone
keeps the event loop busy for 0.1 to 0.4 s. So a broker of a cluster imports all of it after its
start, in short steps between its other work.
"""

import importlib
from collections.abc import Sequence

from sawlog.core.ports import Timer

FIRST_STEP_MS = 300
"""After the start: what waits for the broker comes first."""
STEP_MS = 20
"""Between two steps, each of a few milliseconds."""

MODULES = (
    "sawlog.broker.api.produce",
    "sawlog.broker.api.fetch",
    "sawlog.broker.api.metadata",
    "sawlog.broker.api.list_offsets",
    "sawlog.broker.api.init_producer_id",
    "sawlog.broker.api.find_coordinator",
    "sawlog.groups.classic.classic_member",
    "sawlog.groups.classic.classic_responses",
    "sawlog.groups.classic.join_group",
    "sawlog.groups.consumer.regex_subscriptions",
    "sawlog.groups.consumer.uniform_assignor",
    "sawlog.groups.classic.classic_membership",
    "sawlog.groups.consumer.reconciliation",
    "sawlog.groups.consumer.consumer_membership",
    "sawlog.groups.offsets.offset_requests",
    "sawlog.groups.group_records",
    "sawlog.groups.context",
    "sawlog.groups.group_machine",
    "sawlog.transactions.transaction_records",
    "sawlog.transactions.transaction_machine",
    "sawlog.broker.transaction_markers",
    "sawlog.broker.api.transactions",
    "sawlog.broker.api.write_txn_markers",
    "sawlog.broker.api.group_offsets",
    "sawlog.broker.api.txn_offset_commit",
    "sawlog.broker.api.group_membership",
    "sawlog.broker.api.consumer_groups",
)
"""In an order in which each import is short."""


def preload(timer: Timer, modules: Sequence[str] = MODULES) -> None:
    """Import the modules one after the other, each in an event of its own."""
    left = iter(modules)

    def step() -> None:
        name = next(left, None)
        if name is not None:
            importlib.import_module(name)
            timer.after(STEP_MS, step)

    timer.after(FIRST_STEP_MS, step)
