"""Calls to listeners, isolated from each other: one that raises does not stop the next."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sawlog.core.event_logger import EventLogger

P = ParamSpec("P")
T = TypeVar("T")
logger = EventLogger("sawlog.cluster.callbacks")


def guarded(action: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T | None:
    """Return the result of the action; log an exception and return None instead."""
    try:
        return action(*arguments, **more)
    except Exception:
        logger.exception("a callback raised an exception; the broker goes on")
        return None
