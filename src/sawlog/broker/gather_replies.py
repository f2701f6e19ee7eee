"""Collects the replies of several groups or coordinator partitions into one response."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sawlog.core.ports import Timer

T = TypeVar("T")
Reply = Callable[[T], None]
Query = Callable[[Reply[T]], None]
"""Starts one query and calls its argument exactly once with the result, now or later."""

QUERIES_PER_TURN = 100
"""An admin client that deletes 10,000 groups must not block all other clients."""


def gather(queries: Sequence[Query[T]], done: Reply[list[T]], timer: "Timer") -> None:
    """Call `done` with all replies in the order of `queries`.

    The first queries start now, the others in later turns of the loop.
    """
    replies: dict[int, T] = {}
    count = len(queries)
    if count == 0:
        done([])
        return

    def reply(place: int, result: T) -> None:
        replies[place] = result
        if len(replies) == count:
            done([replies[index] for index in range(count)])

    def start(first: int) -> None:
        end = first + QUERIES_PER_TURN
        if end < count:
            timer.after(0, partial(start, end))
        for place in range(first, min(end, count)):
            queries[place](partial(reply, place))

    start(0)
