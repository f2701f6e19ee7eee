"""Build versitygw, an S3 server over files, into `.cache/` with Go, for tests and benchmarks.

`python -m tools.versitygw` does nothing if it is built. If Go is missing or the build fails, it
prints one line and succeeds. `program()` returns the path of the executable, or None.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "1.8.0"  # older ones let several writers win a conditional PUT
MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"versitygw-{VERSION}"
PROGRAM = CACHE / "versitygw"


def program() -> Path | None:
    return PROGRAM if PROGRAM.exists() else None


def build() -> None:
    """Build the program; raise CalledProcessError if that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program() is None:
            subprocess.run(
                ["go", "install", MODULE],
                check=True,
                env={**os.environ, "GOBIN": str(CACHE), "CGO_ENABLED": "0"},
            )


def main() -> None:
    if program() is not None:
        return
    if shutil.which("go") is None:
        print("missing: go; tests that need versitygw are skipped (with CI=true they fail).",
              file=sys.stderr)  # fmt: skip
        return
    print(f"building versitygw {VERSION} with Go", file=sys.stderr)
    try:
        build()
    except subprocess.CalledProcessError as error:
        print(f"versitygw was not built: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
