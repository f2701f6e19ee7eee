"""Profile the broker: `python -m bench.profile produce-6 [--tool pyinstrument|perf]`.

Runs one workload against Sawlog and prints a profile of the broker. pyinstrument shows Python
functions; perf shows native and kernel functions by self time.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import brokers, runs
from bench.__main__ import line_of
from bench.brokers import Broker, Name
from bench.workloads import BY_NAME

MOST_LINES = 60
TIMEOUT_S = 60.0


@contextlib.contextmanager
def perf(broker: Broker, recording: Path) -> Iterator[None]:
    """Sample the stacks of the running broker during a block."""
    command = ["perf", "record", "--quiet", "-F", "499", "-p", str(broker.server.pid)]
    sampler = subprocess.Popen([*command, "-o", str(recording)], start_new_session=True)
    try:
        yield
    finally:
        sampler.terminate()
        sampler.wait(TIMEOUT_S)


def perf_report(recording: Path) -> str:
    command = ["perf", "report", "--stdio", "--sort", "dso,symbol", "-i", str(recording)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S).stdout


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    loads = [workload.name for workload in BY_NAME.values() if workload.kind in runs.LOADS]
    parser.add_argument("workload", choices=loads)
    parser.add_argument("--tool", choices=["pyinstrument", "perf"], default="pyinstrument")
    parser.add_argument("--factor", type=float, default=1.0, help="share of the records (1.0)")
    options = parser.parse_args(given)
    workload = BY_NAME[options.workload].scaled(options.factor)
    cache = runs.ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="profile-", dir=cache) as name:
        directory = Path(name)
        recording = directory / "recording"
        python: tuple[str, ...] = (sys.executable,)
        if options.tool == "pyinstrument":
            python += ("-m", "pyinstrument", "--use-timing-thread", "-r", "text")
            python += ("-o", str(recording))
        broker = brokers.start(Name.SAWLOG, directory / "broker", python=python)
        is_perf = options.tool == "perf"
        sampling = perf(broker, recording) if is_perf else contextlib.nullcontext()
        try:
            with sampling:
                measured = runs.run(workload, broker, "profiled")
        finally:
            broker.server.stop()
        report = perf_report(recording) if is_perf else recording.read_text()
    lines = [line for line in report.splitlines() if line and not line.startswith("#")]
    print("\n".join(lines[:MOST_LINES] if is_perf else lines))
    print(line_of(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
