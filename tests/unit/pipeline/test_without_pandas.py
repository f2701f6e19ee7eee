"""Processes of the command line and Spark's workers do not import pandas, and can still use it."""

import subprocess
import sys

import pytest


def run_python(*lines: str) -> str:
    program = "\n".join(("import sys", *lines))
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


def test_the_command_line_does_not_import_pandas() -> None:
    output = run_python(
        "from sawlog.cli.pipeline_context import load, require_lake, require_spark",
        "import click",
        "try: load('no such file')",
        "except click.ClickException: pass",
        "require_spark()",
        "import pyspark.testing.utils, sawlog.pipeline.landing.driver.pipeline_runner",
        "import pyarrow as pa",
        "print(pa.array([1]).to_pylist(), 'pandas' in sys.modules)",
    )
    assert output == "[1] False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_workers_are_forked_with_the_modules_of_tasks_and_without_threads_of_blas() -> None:
    output = run_python(
        "from pathlib import Path",
        "from sawlog.pipeline.landing.task.worker_daemon import preload",
        "preload()",
        "before = set(sys.modules)",
        "import pyspark.worker, sawlog.pipeline.landing.task.table_task, numba, pyarrow.parquet",
        "names = [path.read_text().strip() for path in Path('/proc/self/task').glob('*/comm')]",
        "print(sorted(set(sys.modules) - before), 'pandas' in sys.modules)",
        "print(len(set(names) - {'jemalloc_bg_thd'}), len(names) - names.count('jemalloc_bg_thd'))",
    )
    assert output == "[] False\n1 1\n"


def test_pandas_can_be_used_afterwards() -> None:
    output = run_python(
        "import sawlog.pipeline.without_pandas as without",
        "without.keep_pandas_from_pyarrow()",
        "without.keep_pandas_from_pyspark()",
        "import pyarrow as pa",
        "series = pa.array([1, 2]).to_pandas()",
        "print(type(series).__name__, pa.array(series).to_pylist())",
    )
    assert output == "Series [1, 2]\n"
