"""Comparing long sequences without a word too many: pytest would explain a difference in them for
minutes and gigabytes."""

from collections.abc import Sequence
from typing import Any

SHORT = 120


def check_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Fails with the first place where the two are not the same."""
    for index, (left, right) in enumerate(zip(found, expected, strict=False)):
        if left != right:
            raise AssertionError(f"at {index}: {_short(left)}, not {_short(right)}")
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} of {len(expected)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}… ({len(text)} characters)"
