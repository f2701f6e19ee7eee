"""The entry point of `sawlog`. Ctrl-C ends it without a traceback, however early it comes.

Importing this module changes the handling of SIGINT: the signal kills the process until `run` can
catch it, and again after `run`. All other imports come after that change.
"""

# `signal` imports enum and more first, and an interrupt during these imports shows a traceback.
import _signal  # type: ignore[import-not-found]

_interrupt = _signal.getsignal(_signal.SIGINT)
if _interrupt is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # no work has started that needs a clean end
elif _interrupt is _signal.SIG_DFL:
    _interrupt = _signal.default_int_handler  # __main__.py has set SIG_DFL already

import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its exit code."""
    from sawlog.cli.standard_streams import discard_output, reserve_descriptors

    reserve_descriptors()
    from sawlog.cli.commands import run
    from sawlog.cli.exit_codes import INTERRUPTED

    try:
        _signal.signal(_signal.SIGINT, _interrupt)
        code = run(arguments)
        _kill_on_interrupt()
    except KeyboardInterrupt:  # raised outside `run`'s own handling
        _kill_on_interrupt()
        code = INTERRUPTED
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()  # `run` has reported the error
    sys.exit(code)


def _kill_on_interrupt() -> None:
    """Restore the default action of SIGINT: an interrupt at exit must not show a traceback."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


if __name__ == "__main__":
    main()
