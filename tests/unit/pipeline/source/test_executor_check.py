"""The comparison of versions on executors."""

import ast
import platform
import subprocess
import sys

import pytest
from pyspark import cloudpickle

from sawlog.pipeline.source.executor_check import (
    MISSING,
    ExecutorDiffers,
    _probe,
    check_here,
    versions_here,
)


def test_the_same_process_has_the_same_versions() -> None:
    wanted = versions_here()
    assert wanted["python"] == ".".join(platform.python_version_tuple()[:2])
    assert MISSING not in wanted.values()
    check_here(wanted)


def test_a_difference_is_named_with_its_host_and_advice() -> None:
    wanted = versions_here() | {"sawlog": "0.0", "no-such-package": "2.0", "python": "2.7"}
    with pytest.raises(ExecutorDiffers) as caught:
        check_here(wanted)
    text = str(caught.value)
    assert f"{platform.node()}: sawlog is {versions_here()['sawlog']}, the driver has 0.0" in text
    assert "no-such-package is missing, the driver has 2.0" in text
    assert "the driver has 2.7" in text
    assert "spark.archives" in text


def test_another_version_of_another_package_is_accepted() -> None:
    check_here(versions_here() | {"pyarrow": "1.0"})


def test_the_probe_runs_where_nothing_of_ours_is_installed() -> None:
    names = ["pyarrow", "no-such-package"]
    shipped = cloudpickle.dumps(_probe(names)).hex()
    code = (
        "import sys; sys.modules['sawlog'] = None\n"
        "from pyspark import cloudpickle\n"
        f"print(cloudpickle.loads(bytes.fromhex('{shipped}'))(None))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ast.literal_eval(ran.stdout) == [(platform.node(), versions_here(names))], ran.stderr
