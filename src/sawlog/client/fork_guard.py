"""Detects the use of a client object in a forked process.

A fork copies sockets, sequence numbers and memberships, but not threads. Two processes with one
producer's sequence numbers would have records of one dropped as duplicates of the other's.
"""

import os


class ForkGuard:
    """Remembers the process that created its owner."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_same_process(self) -> bool:
        return os.getpid() == self._process

    def check(self, what: str) -> None:
        """ValueError in any other process."""
        if os.getpid() != self._process:
            raise ValueError(
                f"the {what} belongs to process {self._process}, and this process is a fork of it;"
                " create a new one here"
            )
