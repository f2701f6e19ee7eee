"""One question to several shards, and one answer when the last of them has told its part."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

Tell = Callable[[Any], None]
Ask = Callable[[Tell], None]
"""Asks one; whatever comes of it is told exactly once, now or later."""


def gather(asks: Sequence[Ask], done: Callable[[list[Any]], None]) -> None:
    """Calls `done` with what all of them tell, in the order of `asks`."""
    answers: list[Any] = [None] * len(asks)
    left = len(asks)
    if left == 0:
        done(answers)
        return

    def tell(place: int, answer: Any) -> None:
        nonlocal left
        answers[place] = answer
        left -= 1
        if left == 0:
            done(answers)

    for place, ask in enumerate(asks):
        ask(partial(tell, place))
