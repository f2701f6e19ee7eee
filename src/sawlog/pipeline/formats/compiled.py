"""How the loops over bytes are compiled, and what they are given."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from sawlog.compiled import numba_cache

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

LONG = cast("Callable[[Any], int]", np.int64)
"""Makes a number one of 64 bits. Helpers are compiled for each type that they are called with, and
a constant or a number from an array of 32 bits is another one each."""

_HERE = Path(__file__).parent
_SOURCES = [str(_HERE / "json_grammar.py"), *sorted(map(str, _HERE.glob("*_kernels.py")))]

kernel = numba_cache.kernel(None, _SOURCES)
"""Compiled at its first call, or taken from where an earlier process kept it."""
