"""Standard input, output and error as the caller left them: perhaps closed, perhaps left early."""

import contextlib
import os
import sys
from collections.abc import Iterator

_FLAGS = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_RDONLY}  # the wrong ways: to use them fails


def hold_streams() -> None:
    """Fills the places of closed streams, so that no file or socket of ours gets their number.

    What is read from or written to one fails as it should. Paths that are no text can be printed.
    """
    for descriptor, flags in _FLAGS.items():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def discard_output() -> None:
    """The interpreter flushes stdout once more at its end: to where it hurts nobody."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def writing_output() -> Iterator[None]:
    """Names the output in what goes wrong with it. A reader that has left is no such thing."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error
