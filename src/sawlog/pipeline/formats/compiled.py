"""How the loops over bytes are compiled: once for a machine, kept beside the client's own.

The compiled code lies under a name made from all sources that it was compiled from, since numba
itself looks at a function's own file only and would go on using what others in it have changed.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from sawlog.client.compiling import cache_directory

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

LONG = cast("Callable[[Any], int]", np.int64)
"""Makes a number one of 64 bits. Helpers are compiled for each type that they are called with, and
a constant or a number from an array of 32 bits is another one each."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _kept_in() -> str | None:
    directory = cache_directory()
    if directory is None:
        return None
    here = Path(__file__).parent
    sources = [here / "json_grammar.py", *sorted(here.glob("*_kernels.py"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return str(directory / f"formats-{digest[:16]}")


_DIRECTORY = _kept_in()


def helper(function: Function) -> Function:
    """Compiled into its callers, without what Python would need to call it."""
    compiled: Any = numba.njit
    return cast("Function", compiled(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def kernel(function: Function) -> Function:
    """Compiled at its first call, or taken from where an earlier process kept it."""
    if _DIRECTORY is None:
        return cast("Function", numba.njit(nogil=True)(function))
    settings: Any = numba.config
    usual, settings.CACHE_DIR = settings.CACHE_DIR, _DIRECTORY
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    finally:
        settings.CACHE_DIR = usual
