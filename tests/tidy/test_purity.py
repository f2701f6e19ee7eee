"""Nothing below `server/` touches the world: no clock, no randomness, no files, no threads.

What a deterministic layer needs comes through the ports of `core/ports.py`; that is what lets the
simulator run the same broker from a seed.
"""

import ast

import pytest

from support.sources import SOURCE, modules_of, name_of, parse

PURE_LAYERS = (
    "core",
    "protocol",
    "storage",
    "cluster",
    "replication",
    "coordinator",
    "groups",
    "broker",
    "simulation",
)
FORBIDDEN = frozenset(
    {
        "asyncio",
        "concurrent",
        "io",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "uvloop",
    }
)
ALLOWED_IN = {"simulation": frozenset({"random"})}  # only to build the seeded generator
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})


def world_touched_by(tree: ast.Module, allowed: frozenset[str]) -> list[str]:
    """Every import and call in a module that reaches outside, as `line: what`."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
        elif isinstance(node, ast.Call):
            call = call_to_the_world(node)
            found += [f"{node.lineno}: {call}"] if call else []
            continue
        else:
            continue
        roots = {name.split(".")[0] for name in names}
        found += [f"{node.lineno}: import {root}" for root in sorted(roots & FORBIDDEN - allowed)]
    return found


def call_to_the_world(node: ast.Call) -> str | None:
    match node.func:
        case ast.Name(id="open" | "__import__" | "input" | "print" as name):
            return f"{name}()"
        case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name) if name in (
            CLOCK_CALLS
        ):
            return f"datetime.{name}()"
        case ast.Attribute(value=ast.Attribute(attr="datetime" | "date"), attr=name) if name in (
            CLOCK_CALLS
        ):
            return f"datetime.{name}()"
    return None


@pytest.mark.parametrize("layer", PURE_LAYERS)
def test_a_layer_below_the_server_does_not_touch_the_world(layer: str) -> None:
    allowed = ALLOWED_IN.get(layer, frozenset())
    touched = [
        f"{name_of(path)}:{what}"
        for path in modules_of(SOURCE / layer)
        for what in world_touched_by(parse(path), allowed)
    ]
    assert touched == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os.path", "import os"),
        ("from time import monotonic", "import time"),
        ("def f():\n    import random", "import random"),
        ("with open('x') as f: pass", "open()"),
        ("datetime.now()", "datetime.now()"),
        ("datetime.datetime.utcnow()", "datetime.utcnow()"),
    ],
)
def test_each_way_to_touch_the_world_is_seen(code: str, what: str) -> None:
    assert [found.split(": ")[1] for found in world_touched_by(ast.parse(code), frozenset())] == [
        what
    ]
