"""Comparison of long sequences, whose difference pytest would take minutes and gigabytes to
explain."""

from collections.abc import Sequence
from typing import Any

SHORT = 120


def check_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that two sequences are equal; show the first difference."""
    for index, (left, right) in enumerate(zip(found, expected, strict=False)):
        if left != right:
            raise AssertionError(f"at {index}: {_short(left)}, not {_short(right)}")
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} of {len(expected)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}… ({len(text)} characters)"
