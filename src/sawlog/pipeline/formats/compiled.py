"""How the loops over bytes are compiled, and the array types that they take."""

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
"""Converts to a 64-bit integer. Helpers are compiled once per argument type, and constants and
32-bit array items would each add one.
"""

_HERE = Path(__file__).parent
_SOURCES = [str(_HERE / "json_grammar.py"), *sorted(map(str, _HERE.glob("*_kernels.py")))]

kernel = numba_cache.kernel(None, _SOURCES)
"""Compiled at the first call, or loaded from the cache of an earlier process."""
