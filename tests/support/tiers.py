"""How often a test repeats itself in each tier: a few times, one good round, or very many."""

from typing import Any

import pytest


def rounds(*, fast: Any = None, long: Any, soak: Any) -> list[Any]:
    """Parameters of a test that repeats itself; none for the fast tier where `fast` is None."""
    params = [
        pytest.param(long, marks=pytest.mark.long, id="long"),
        pytest.param(soak, marks=pytest.mark.soak, id="soak"),
    ]
    return params if fast is None else [pytest.param(fast, id="fast"), *params]
