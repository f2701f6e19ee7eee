"""Compiles kernels before tasks need them: `python -m sawlog.pipeline.formats.compile_ahead KIND`.

Numba takes ten seconds for JSON at the first use on a machine. In tasks, every Python worker would
take them at the same time. A file remembers that it is done, so that this is known without numba.
"""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parent.parent
_SOURCES = (
    *sorted(_HERE.glob("*.py")),
    _PACKAGE / "client" / "arrow" / "record_kernels.py",
    _PACKAGE / "compiled" / "numba_cache.py",
)
_JSON = (
    b'{"a": 1, "b": 1.5, "c": "x", "d": true, "e": {"f": [1, 2], "g": null}}',
    b'{"a": -7, "b": 2e3, "c": "a \\u00e9 \\" b", "d": false, "e": {"f": [], "g": "y"}}',
    b'{"broken',
)
_CSV = (b"1,1.5,x,true,2025-01-31T12:00:00Z", b'2,-2.5,"a ""b""",false,', b"broken")
_POLL_S = 0.1
_DDL = "a BIGINT, b DOUBLE, c STRING, d BOOLEAN, e TIMESTAMP"


def is_compiled(kinds: Sequence[str]) -> bool:
    """Whether the kernels of these formats were compiled by this installation."""
    return all(_marker(kind).exists() for kind in kinds)


@contextmanager
def compiled_meanwhile(kinds: Sequence[str]) -> Iterator[Callable[[threading.Event], None]]:
    """Compile the kernels of these formats in a child process during the block, if necessary.

    Yields a function that waits for the end of that, or for the event.
    """
    if is_compiled(kinds):
        yield lambda _: None
        return
    child = subprocess.Popen(
        [sys.executable, "-m", "sawlog.pipeline.formats.compile_ahead", *kinds],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def wait(stop: threading.Event) -> None:
        while child.poll() is None and not stop.wait(_POLL_S):
            pass

    try:
        yield wait
    finally:
        child.kill()
        child.wait()


def compile_kernels(kinds: Sequence[str]) -> None:
    """Compile the kernels of these formats, or load them from the cache of kernels."""
    import pyarrow as pa

    from sawlog.client.arrow import record_kernels  # noqa: F401
    from sawlog.pipeline.formats import parser
    from sawlog.pipeline.formats.ddl import from_ddl
    from sawlog.pipeline.formats.parsed import Format

    for kind in kinds:
        if kind == "json":
            values = pa.array(_JSON, pa.binary())
            for known, infer in ((None, True), (from_ddl(_DDL), False)):
                list(parser(Format("json"), known, infer=infer)(values))
        elif kind == "csv":
            values = pa.array(_CSV, pa.binary())
            list(parser(Format("csv"), from_ddl(_DDL), infer=False)(values))
        marker = _marker(kind)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def _marker(kind: str) -> Path:
    """The file that says that a format was compiled, by these sources and this numba."""
    digest = hashlib.sha256(metadata.version("numba").encode())
    for source in _SOURCES:
        digest.update(os.fsencode(source))
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME")
    cache = Path(home) if home else Path.home() / ".cache"
    return cache / "sawlog" / f"compiled-{kind}-{digest.hexdigest()[:16]}"


if __name__ == "__main__":
    compile_kernels(sys.argv[1:])
