"""A file stays under 600 lines and a function under 60; a longer file holds two nouns."""

import ast
from pathlib import Path

from support.sources import ROOT, modules_of, name_of, parse, written_modules

FILE_LINES = 600
FUNCTION_LINES = 60
OTHER_CODE = ("tools", "bench", "tests")


def code_files() -> list[Path]:
    others = (path for name in OTHER_CODE for path in modules_of(ROOT / name))
    return [*written_modules(), *others]


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in code_files()}
    assert {name: lines for name, lines in lengths.items() if lines >= FILE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{name_of(path)}:{node.lineno} {node.name}": lines
        for path in code_files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) >= FUNCTION_LINES
    }
    assert long == {}
