"""Ends a process with its parent, however that one ends."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, even while it is stopped (SIGSTOP).

    `parent` is the process id that the parent passed: if it has ended already, so does this one.
    The setting survives an exec.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
