"""The modules of a package do not import each other in a circle, not even for type annotations."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from support.sources import SOURCE, modules_of, parse

PACKAGES = ("storage", "groups", "transactions", "coordinator")

Graph = Mapping[str, Iterable[str]]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.Module) -> set[str]:
    """Every absolute name that an import statement anywhere in a module could mean."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def import_graph(package: str) -> Graph:
    """The modules of a package and the modules of the same package that each of them imports."""
    trees = {module_name(path): parse(path) for path in modules_of(SOURCE / package)}
    return {name: sorted(imported_names(tree) & trees.keys()) for name, tree in trees.items()}


def cycles(graph: Graph) -> list[str]:
    """The cycles that a depth-first search finds, each as `a -> b -> a`; empty if there is none."""
    found: list[str] = []
    finished: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in finished:
            for imported in graph[module]:
                visit(imported, [*path, module])
            finished.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package: str) -> None:
    assert cycles(import_graph(package)) == []


def test_a_cycle_is_reported_with_its_path() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}
    assert cycles(graph) == ["b -> c -> b"]


def test_imports_for_annotations_and_inside_functions_count() -> None:
    code = "if TYPE_CHECKING:\n    from sawlog.a import B\ndef f():\n    import sawlog.c"
    assert imported_names(ast.parse(code)) == {"sawlog.a", "sawlog.a.B", "sawlog.c"}
