"""The example of the README runs as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

from support.server.broker_process import running_sawlog

README = Path(__file__).parents[3] / "README.md"
ADDRESS = "127.0.0.1:9092"


def run(example: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_readme_example_runs_and_shows_errors(tmp_path: Path) -> None:
    section = README.read_text().split("## The Python client")[1]
    example = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    assert ADDRESS in example
    with running_sawlog(tmp_path) as server:
        example = example.replace(ADDRESS, server.bootstrap)
        first, second = run(example), run(example)
    assert "stored at 0" in first
    for value in ("b'anna' b'19.90'", "None b'5.00'", "None b'7.50'"):
        assert value in first
    assert "not created" not in first
    assert "payments was not created: TOPIC_ALREADY_EXISTS" in second
