"""Calls that tell others of something: one that fails does not keep the rest from being told."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sawlog.core.event_logger import EventLogger

P = ParamSpec("P")
T = TypeVar("T")
logger = EventLogger("sawlog.cluster.callbacks")


def guarded(action: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T | None:
    """What the action returns; None where it raised, which is in the log then."""
    try:
        return action(*arguments, **more)
    except Exception:
        logger.exception("a callback failed")
        return None
