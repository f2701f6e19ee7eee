"""`python -m sawlog`: the same command line as the installed `sawlog` script."""

import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # as `cli.main` does, one import earlier

from sawlog.cli.main import main

if __name__ == "__main__":
    main()
