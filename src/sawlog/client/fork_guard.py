"""Whether this process is still the one that an object was made in.

A fork copies sockets, numbers and memberships, but not the threads that look after them. Two
processes with one producer's numbers would have records of one taken for doubles of the other's.
"""

import os


class ForkGuard:
    """The process that it was made in."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_same_process(self) -> bool:
        return os.getpid() == self._process

    def check(self, what: str) -> None:
        if os.getpid() != self._process:
            raise ValueError(
                f"the {what} belongs to process {self._process}, of which this one is a fork; make"
                " another one here"
            )
