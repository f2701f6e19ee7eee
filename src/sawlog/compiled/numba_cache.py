"""How loops over bytes are compiled: by numba, once for a machine, and kept for the next process.

The code is kept where only its owner can write, under a name made from all sources that it was
compiled from, this one among them: numba itself looks at a function's own file only. Where it
cannot be kept, each process compiles for itself. Importing this imports numba.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding as llvm

Function = TypeVar("Function", bound=Callable[..., Any])

_numba: Any = numba  # typed by half


def helper(function: Function) -> Function:
    """Compiled into the body of its callers, without what Python would need to call it. It can
    make no arrays, and need not count who uses those that it is given: a call that does so costs
    more than most helpers do.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled = _numba.njit(nogil=True, forceinline=True, _nrt=False, **options)(function)
    return cast("Function", compiled)


def kernel(signature: Any, sources: Sequence[str]) -> Callable[[Function], Function]:
    """Compiled for this one signature at once (None: for its arguments at its first call), or taken
    from the cache; runs without the interpreter's lock. `sources` are the files that it and all its
    helpers and constants are in.

    NUMBA_CACHE_DIR goes before our own place, which numba is told of for this one call only.
    """

    def compiled(function: Function) -> Function:
        configured = _numba.config.CACHE_DIR
        try:
            place = Path(configured) if configured else cache_directory()
            if place is not None:
                _numba.config.CACHE_DIR = os.fspath(_made(place / _digest(tuple(sources))))
                found = _numba.njit(signature, nogil=True, cache=True)(function)
                return cast("Function", found)
        except (OSError, RuntimeError):  # not to be written after all, or the source is in a zip
            pass
        finally:
            _numba.config.CACHE_DIR = configured
        return cast("Function", _numba.njit(signature, nogil=True)(function))

    return compiled


def _made(place: Path) -> Path:
    """A directory to write to: without one numba would keep its code beside the sources."""
    place.mkdir(parents=True, exist_ok=True)
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written")
    return place


@cache
def _digest(sources: tuple[str, ...]) -> str:
    content = b"".join(Path(source).read_bytes() for source in (__file__, *sources))
    return hashlib.sha256(content).hexdigest()[:16]


def cache_directory() -> Path | None:
    """Where compiled code may be kept: pickles are loaded from there, so nobody else may write it.

    One for each kind of processor, since home directories are shared between machines. None where
    there is no such place; then each process compiles for itself.
    """
    name = f"numba-{numba.__version__}-{llvm.get_host_cpu_name()}"
    for find in (_in_home, _in_temporary):
        try:
            place = find()
            place.parent.mkdir(parents=True, exist_ok=True)
            for directory in (place, place / name):
                directory.mkdir(mode=0o700, exist_ok=True)
            if _is_ours(place) and _is_ours(place / name):
                return place / name
        except (OSError, RuntimeError):  # nothing can be written there, or there is no home
            continue
    return None


def _in_home() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "sawlog"


def _in_temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"sawlog-{os.getuid()}"


def _is_ours(directory: Path) -> bool:
    found = directory.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and os.access(directory, os.W_OK)
    )
