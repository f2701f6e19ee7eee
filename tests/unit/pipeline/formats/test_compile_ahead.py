"""Kernels that were compiled ahead are those that tasks need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.pipeline.formats import compile_ahead

PARSE = """
import json, sys
import pyarrow as pa
from sawlog.client.arrow import record_kernels
from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.parsed import Format
values = [json.dumps({"id": n, "ms": n / 4, "user": f"u{n}", "ok": n % 2 == 0}).encode()
          for n in range(100)]
(found,) = parser(Format("json"), None, infer=True)(pa.array([*values, b"{broken"], pa.binary()))
assert found.rows.num_rows == 100, found
"""


def python(cache: Path, *arguments: str) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, *arguments], env=environment, check=True)


def compiled_in(cache: Path) -> set[str]:
    return {path.name for path in cache.rglob("*.nbc")}


@pytest.mark.long
def test_nothing_is_compiled_after_compiling_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not compile_ahead.is_compiled(["json"])
    python(tmp_path, "-m", "sawlog.pipeline.formats.compile_ahead", "json")
    assert compile_ahead.is_compiled(["json"])
    assert not compile_ahead.is_compiled(["json", "csv"])
    before = compiled_in(tmp_path)
    assert before
    python(tmp_path, "-c", PARSE)
    assert compiled_in(tmp_path) == before


def test_another_installation_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compile_ahead.compile_kernels(["raw"])
    assert compile_ahead.is_compiled(["raw"])
    monkeypatch.setattr(compile_ahead, "_SOURCES", compile_ahead._SOURCES[:-1])
    assert not compile_ahead.is_compiled(["raw"])
