"""Limits on the size of files and functions.

Size is a hint: a file over 600 lines usually holds two nouns. A class is never split by moving
methods out of it.
"""

import ast
from pathlib import Path

from support.sources import ROOT, modules_of, name_of, parse, written_modules

FILE_LINES = 600
FUNCTION_LINES = 60
OTHER_CODE = ("tools", "bench", "tests")


def code_files() -> list[Path]:
    others = (path for name in OTHER_CODE for path in modules_of(ROOT / name))
    return [*written_modules(), *others]


def test_files_stay_under_600_lines() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in code_files()}
    assert {name: lines for name, lines in lengths.items() if lines >= FILE_LINES} == {}


def test_functions_stay_under_60_lines() -> None:
    long = {
        f"{name_of(path)}:{node.lineno} {node.name}": lines
        for path in code_files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) >= FUNCTION_LINES
    }
    assert long == {}
