"""Imports, ahead of time, the code that a broker needs when it begins to lead partitions.

Handlers and the group coordinator are imported at their first use, so that a start is short. In a
cluster that first use may be a failover, while clients wait: the import of the coordinator alone
keeps the event loop busy for 0.1 to 0.4 s. So a broker of a cluster imports all of it after its
start, in short steps between its other work.
"""

import asyncio
import importlib
from collections.abc import Sequence

FIRST_STEP_S = 0.3
"""After the start, when the broker has caught up with what was waiting for it."""
STEP_S = 0.02

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
    "sawlog.broker.api.group_offsets",
    "sawlog.broker.api.group_membership",
    "sawlog.broker.api.consumer_groups",
)
"""In an order in which each import is short."""


def preload(loop: asyncio.AbstractEventLoop, modules: Sequence[str] = MODULES) -> None:
    """Import the modules one after the other, each in a turn of the loop of its own."""
    left = iter(modules)

    def step() -> None:
        name = next(left, None)
        if name is not None:
            importlib.import_module(name)
            loop.call_later(STEP_S, step)

    loop.call_later(FIRST_STEP_S, step)
