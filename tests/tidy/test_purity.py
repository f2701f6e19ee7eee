"""Layers below `server/` do no IO: no clock, no randomness, no files, no sockets, no threads.

They use the ports of `core/ports.py`, so that the simulator can run the same broker from a seed.
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
    "transactions",
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
ALLOWED_IN = {"simulation": frozenset({"random"})}  # for the seeded generator
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})


def impure_code_in(tree: ast.Module, allowed: frozenset[str]) -> list[str]:
    """Every forbidden import and call of a module, as `line: name`."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
        elif isinstance(node, ast.Call):
            call = impure_call(node)
            found += [f"{node.lineno}: {call}"] if call else []
            continue
        else:
            continue
        roots = {name.split(".")[0] for name in names}
        found += [f"{node.lineno}: import {root}" for root in sorted(roots & FORBIDDEN - allowed)]
    return found


def impure_call(node: ast.Call) -> str | None:
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
def test_a_layer_below_the_server_is_pure(layer: str) -> None:
    allowed = ALLOWED_IN.get(layer, frozenset())
    impure = [
        f"{name_of(path)}:{code}"
        for path in modules_of(SOURCE / layer)
        for code in impure_code_in(parse(path), allowed)
    ]
    assert impure == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os.path", "import os"),
        ("from time import monotonic", "import time"),
        ("def f():\n    import random", "import random"),
        ("with open('x') as f: pass", "open()"),
        ("datetime.now()", "datetime.now()"),
        ("datetime.datetime.utcnow()", "datetime.utcnow()"),
    ],
)
def test_each_kind_of_impure_code_is_found(code: str, expected: str) -> None:
    assert [found.split(": ")[1] for found in impure_code_in(ast.parse(code), frozenset())] == [
        expected
    ]
