"""One question to several groups or shards, and one answer when the last has told its part."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sawlog.core.ports import Timer

Tell = Callable[[Any], None]
Ask = Callable[[Tell], None]
"""Asks one; whatever comes of it is told exactly once, now or later."""

STEP = 100
"""So many are asked at a time: an admin who deletes 10,000 groups keeps nobody else waiting."""


def gather(asks: Sequence[Ask], done: Callable[[list[Any]], None], timer: "Timer") -> None:
    """Calls `done` with what all of them tell, in the order of `asks`. The first are asked now, the
    others in steps that leave the loop free in between."""
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

    def go_on(start: int) -> None:
        end = start + STEP
        if end < len(asks):
            timer.after(0, partial(go_on, end))
        for place in range(start, min(end, len(asks))):
            asks[place](partial(tell, place))

    go_on(0)
