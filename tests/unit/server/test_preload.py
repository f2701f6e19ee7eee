"""What a broker imports ahead of its first leadership."""

import asyncio
import subprocess
import sys

from sawlog.server import preload

FAILOVER = """
import sys
from sawlog.server import broker_process, preload
import importlib

for name in preload.MODULES:
    importlib.import_module(name)
before = set(sys.modules)
from sawlog.broker.dispatch import LOADERS
from sawlog.broker.group_coordinator import GroupCoordinator
from sawlog.protocol.apis import ApiKey

for key in (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
):
    LOADERS[key]()
coordinator = GroupCoordinator(
    {}, None, None, None, None, clock=None, timer=None, random=None
)


class Led:
    class name:
        partition = 0
        topic = "__consumer_offsets"
    leader_epoch = 0


try:
    coordinator.lead(Led())
except AttributeError:
    pass  # there is no log to load
print(sorted(set(sys.modules) - before))
"""


def test_a_failover_imports_nothing() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FAILOVER], capture_output=True, text=True, check=False
    )
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_modules_are_imported_one_by_one() -> None:
    """Other work of the event loop comes between two imports."""
    loop = asyncio.new_event_loop()
    due: list[float] = []
    try:
        # A loop that runs its timers at once, in the order in which they are due.
        loop.call_later = lambda delay, step: due.append(delay) or pending.append(step)  # type: ignore
        pending: list = []
        preload.preload(loop, ["json", "ast"])
        turns = 0
        while pending:
            pending.pop(0)()
            turns += 1
        assert turns == 3
        assert due == [preload.FIRST_STEP_S, preload.STEP_S, preload.STEP_S]
    finally:
        loop.close()
