"""The code that a broker imports before it leads, so that a failover need not."""

import subprocess
import sys

import pytest

from sawlog.server.preload import MODULES, preload
from sawlog.simulation.schedule import Schedule

LATE_IMPORTS = """
import ast, importlib, inspect, sys
from sawlog.broker import group_coordinator
from sawlog.broker.dispatch import LOADERS
from sawlog.protocol.apis import ApiKey
from sawlog.server import broker_process
from sawlog.server.preload import MODULES

for name in MODULES:
    importlib.import_module(name)
before = set(sys.modules)
for key in (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
):
    LOADERS[key]()
for function in ast.walk(ast.parse(inspect.getsource(group_coordinator))):
    if isinstance(function, ast.FunctionDef):
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom):
                importlib.import_module(node.module)
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_leadership_of_a_broker_imports_nothing() -> None:
    """The handlers of clients that come with a leader, and the group coordinator."""
    run = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS], capture_output=True, text=True, check=False
    )
    assert (run.stdout.split(), run.returncode) == ([], 0), run.stderr


def test_each_module_is_imported_in_an_event_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are served between two imports."""
    imported: list[str] = []
    monkeypatch.setattr("importlib.import_module", imported.append)
    schedule = Schedule(1)
    preload(schedule)
    assert imported == []
    for count in range(1, len(MODULES) + 1):
        assert schedule.step()
        assert imported == list(MODULES[:count])
    assert schedule.step()
    assert not schedule.step(), "nothing is left to do"
