"""Every module has a docstring and a user, and no marker of unfinished work."""

import ast
from pathlib import Path

from support.sources import SOURCE, modules_of, name_of, parse, written_modules

DOCSTRING_LINES = range(1, 8)  # one to seven lines
EXAMPLE = "\n\nAn example with numbers."  # an example after this line does not count
ENTRY_POINTS = frozenset(
    # Imported by the command line, by PySpark, or by tests that run a simulation.
    {
        "sawlog.cli.main",
        "sawlog.pipeline.source.topic_source",
        "sawlog.simulation.simulated_store",
        "sawlog.simulation.keyed_workload",
        "sawlog.simulation.workload",
    }
)
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path) -> set[str]:
    """All module names in the imports of a module; strings count as lazy imports."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            root = ".".join([*base, *([node.module] if node.module else [])])
            names |= {root, *(f"{root}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_every_module_has_a_user() -> None:
    users = {path: imported_by(path) for path in modules_of(SOURCE)}
    dead = [
        name_of(path)
        for path in written_modules()
        if path.name not in ("__init__.py", "__main__.py")
        and (name := module_name(path)) not in ENTRY_POINTS
        and not any(name in names for user, names in users.items() if user != path)
    ]
    assert dead == []


def docstring_lines(path: Path) -> int:
    opening, _, _ = (ast.get_docstring(parse(path)) or "").partition(EXAMPLE)
    return len(opening.splitlines())


def test_every_module_has_a_docstring_of_one_to_seven_lines() -> None:
    wrong = [
        name_of(path)
        for path in written_modules()
        if path.read_text().strip() and docstring_lines(path) not in DOCSTRING_LINES
    ]
    assert wrong == []


def test_no_module_has_a_marker_of_unfinished_work() -> None:
    marks = [
        f"{name_of(path)}:{number}"
        for path in modules_of(SOURCE)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(mark in line for mark in UNFINISHED)
    ]
    assert marks == []
