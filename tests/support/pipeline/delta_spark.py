"""Delta's own Spark connector, as a reference reader in its own environment.

It exists for Spark 4.0, not for the version we use. So PySpark 4.0.0 is installed under `.cache/`
with two jars from Maven; tests are skipped if that fails.
"""

import fcntl
import shutil
import subprocess
import sys

from support.programs import require, unavailable
from support.sources import ROOT

VERSION = "4.0.0"
JARS = ("io.delta:delta-spark_2.13", "io.delta:delta-storage")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
DIRECTORY = ROOT / ".cache" / f"delta-spark-{VERSION}"


def require_delta_spark() -> tuple[str, str]:
    """The Python with PySpark 4.0.0, and the value of `spark.jars`."""
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
    return str(DIRECTORY / "venv" / "bin" / "python"), ",".join(jars)


def _fetch() -> None:
    for part in ("venv", "jars"):
        shutil.rmtree(DIRECTORY / part, ignore_errors=True)
    for artifact in JARS:
        wanted = f"-Dartifact={artifact}:{VERSION}"
        target = f"-DoutputDirectory={DIRECTORY / 'jars'}"
        command = ["mvn", "--quiet", "--batch-mode", f"{PLUGIN}:copy", wanted, target]
        subprocess.run(command, check=True, timeout=600)
    python = str(DIRECTORY / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(DIRECTORY / "venv")], check=True, timeout=120)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"pyspark=={VERSION}"], check=True, timeout=1800)
    (DIRECTORY / "complete").touch()
