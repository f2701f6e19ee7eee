"""Compiles kernels with numba, once per machine, and caches the code for later processes.

The cache is a directory that only its owner can write, with a subdirectory per digest of all source
files of a kernel, this one included: numba itself checks the file of the function only. Without a
writable directory each process compiles for itself. Importing this module imports numba.
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

_numba: Any = numba  # partly untyped


def helper(function: Function) -> Function:
    """Compile a function that is inlined into kernels and cannot be called from Python.

    It cannot create arrays, which saves the reference counts of its arguments: these would cost
    more than most helpers do.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled = _numba.njit(nogil=True, forceinline=True, _nrt=False, **options)(function)
    return cast("Function", compiled)


def kernel(signature: Any, sources: Sequence[str]) -> Callable[[Function], Function]:
    """Compile a function for one signature (None: at the first call), or load it from the cache.

    It runs without the GIL. `sources` are the files of the function, its helpers and constants.
    NUMBA_CACHE_DIR overrides the cache directory, which is set in numba for this call only.
    """

    def compiled(function: Function) -> Function:
        configured = _numba.config.CACHE_DIR
        try:
            directory = Path(configured) if configured else cache_directory()
            if directory is not None:
                _numba.config.CACHE_DIR = os.fspath(_create(directory / _digest(tuple(sources))))
                found = _numba.njit(signature, nogil=True, cache=True)(function)
                return cast("Function", found)
        except (OSError, RuntimeError):  # not writable after all, or the source is in a zip file
            pass
        finally:
            _numba.config.CACHE_DIR = configured
        return cast("Function", _numba.njit(signature, nogil=True)(function))

    return compiled


def _create(place: Path) -> Path:
    """Create a writable directory; without one numba would write beside the sources."""
    place.mkdir(parents=True, exist_ok=True)
    if not os.access(place, os.W_OK):
        raise PermissionError(f"{place} cannot be written")
    return place


@cache
def _digest(sources: tuple[str, ...]) -> str:
    content = b"".join(Path(source).read_bytes() for source in (__file__, *sources))
    return hashlib.sha256(content).hexdigest()[:16]


def cache_directory() -> Path | None:
    """Return the cache directory, or None if no directory is safe.

    Pickles are loaded from it, so no other user may be able to write it. There is one per processor
    type, since home directories may be shared between machines.
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
        except (OSError, RuntimeError):  # not writable, or there is no home directory
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
