"""Delta's own Spark connector, as a reference reader in its own environment.

It exists for Spark 4.0, not for the version we use. So the source archive of PySpark 4.0.0, which
has Spark's jars, is unpacked under `.cache/`, with two jars from Maven; tests are skipped if that
fails. An installation would compress and unpack the jars once more.
"""

import fcntl
import importlib.util
import shutil
import subprocess
import sys
from typing import NamedTuple

from support.programs import require, unavailable
from support.sources import ROOT

VERSION = "4.0.0"
JARS = ("io.delta:delta-spark_2.13", "io.delta:delta-storage")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
DIRECTORY = ROOT / ".cache" / f"delta-spark-{VERSION}"
PYSPARK = DIRECTORY / f"pyspark-{VERSION}"
PARTS = tuple(f"{PYSPARK.name}/{part}" for part in ("pyspark", "lib", "deps/bin", "deps/jars"))


class DeltaSpark(NamedTuple):
    """How a script runs with PySpark 4.0.0 instead of ours."""

    environment: dict[str, str]
    jars: str  # the value of `spark.jars`


def require_delta_spark() -> DeltaSpark:
    require("java")
    require("mvn")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (DIRECTORY / "complete").exists():
            try:
                _fetch()
            except subprocess.SubprocessError as error:
                unavailable(f"delta-spark {VERSION} cannot be had: {error}")
    jars = sorted(str(path) for path in (DIRECTORY / "jars").glob("*.jar"))
    paths = [PYSPARK, *(PYSPARK / "lib").glob("py4j-*.zip")]
    environment = {
        "PYTHONPATH": ":".join(map(str, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(PYSPARK / "deps"),
    }
    return DeltaSpark(environment, ",".join(jars))


def _fetch() -> None:
    for part in (PYSPARK, DIRECTORY / "jars"):
        shutil.rmtree(part, ignore_errors=True)
    for artifact in JARS:
        wanted = f"-Dartifact={artifact}:{VERSION}"
        target = f"-DoutputDirectory={DIRECTORY / 'jars'}"
        command = ["mvn", "--quiet", "--batch-mode", f"{PLUGIN}:copy", wanted, target]
        subprocess.run(command, check=True, timeout=600)
    if importlib.util.find_spec("pip") is None:  # an environment of uv has none
        subprocess.run([sys.executable, "-m", "ensurepip"], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-deps", "--dest", str(DIRECTORY), f"pyspark=={VERSION}"],
        check=True, timeout=1800,
    )  # fmt: skip
    archive = DIRECTORY / f"{PYSPARK.name}.tar.gz"
    command = ["tar", "-xzf", str(archive), "-C", str(DIRECTORY), *PARTS]
    subprocess.run(command, check=True, timeout=600)
    archive.unlink()
    (DIRECTORY / "complete").touch()
