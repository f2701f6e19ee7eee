"""`sawlog`: where the process begins. Ctrl-C ends it without a traceback, however early it comes,
which is why everything else is imported only here, inside.
"""

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: ends the process with the exit code."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun that must be ended well
    from sawlog.cli.streams import discard_output, hold_streams

    hold_streams()
    from sawlog.cli.commands import run

    signal.signal(signal.SIGINT, interrupt)
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()  # what is wrong with it was told
    sys.exit(code)


if __name__ == "__main__":
    main()
