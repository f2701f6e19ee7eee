"""Parameters for tests that run a different number of rounds in each tier."""

from typing import Any

import pytest


def rounds(*, fast: Any = None, long: Any, soak: Any) -> list[Any]:
    """Return the parameters of a test by tier; without `fast` it does not run in the fast tier."""
    params = [
        pytest.param(long, marks=pytest.mark.long, id="long"),
        pytest.param(soak, marks=pytest.mark.soak, id="soak"),
    ]
    return params if fast is None else [pytest.param(fast, id="fast"), *params]
