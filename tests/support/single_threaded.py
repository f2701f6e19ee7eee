"""Run a function in a child process that has no other threads.

`tracemalloc.stop` may crash a process in which another thread allocates at that moment
(python/cpython#128679), and the threads of clients and servers outlive the tests that began them.
"""

import functools
import multiprocessing
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _child() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def single_threaded(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function of a module in the child; its exceptions are raised here."""
    return _child().submit(function, *args, **options).result()


class PeakMemory:
    """Measures the memory of Python objects during a `with` block: `bytes` is the most that the
    block took at once."""

    def __init__(self) -> None:
        self.bytes = 0

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
