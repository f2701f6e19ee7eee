"""Standard input, output and error, which the caller may have closed or stopped reading."""

import contextlib
import os
import sys
from collections.abc import Iterator

# Opened in the wrong direction, so that using a stream that the caller closed fails.
_FLAGS = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_RDONLY}


def reserve_descriptors() -> None:
    """Open closed standard streams on /dev/null, so that no file or socket gets their number.

    Reading from or writing to such a stream still fails. Paths that are not UTF-8 can be printed.
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
    """Redirect stdout to /dev/null: the interpreter flushes it once more at exit."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def writing_output() -> Iterator[None]:
    """Flush stdout at the end, and name it in write errors; BrokenPipeError passes unchanged."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error
