"""The entry point of `sawlog`. Ctrl-C ends it without a traceback, however early it comes.

Importing this module changes the handling of SIGINT: it ends the process at once until `run` can
catch it, and again when `run` is done. Everything else is imported after that line.
"""

# `signal` would import enum and more first, and an interrupt meanwhile would show a traceback.
import _signal  # type: ignore[import-not-found]

_interrupt = _signal.getsignal(_signal.SIGINT)
if _interrupt is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # nothing is begun that must be ended well
elif _interrupt is _signal.SIG_DFL:
    _interrupt = _signal.default_int_handler  # `python -m sawlog` was here; see __main__.py

import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: ends the process with the exit code."""
    from sawlog.cli.standard_streams import discard_output, hold_streams

    hold_streams()
    from sawlog.cli.commands import INTERRUPTED, run

    try:
        _signal.signal(_signal.SIGINT, _interrupt)
        code = run(arguments)
        _end_at_once()
    except KeyboardInterrupt:  # between two lines, or while an error was told
        _end_at_once()
        code = INTERRUPTED
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()  # what is wrong with it was told
    sys.exit(code)


def _end_at_once() -> None:
    """The command is over: an interrupt must not show where the interpreter is at its end."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


if __name__ == "__main__":
    main()
