"""Spark's Kafka connector with its own PySpark, in an environment under `.cache/`, for benchmarks.

`python -m tools.spark_connector` installs both with pip and Maven, or prints one line about what is
missing. 4.0.0 is the last version whose jars Maven resolves completely; it needs another PySpark
than Sawlog. `prepare_delta()` adds delta-spark for this Spark, for the benchmark of MERGE.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "4.0.0"
PACKAGES = (f"pyspark=={VERSION}", "pandas<3", "setuptools<81")
ARTIFACT = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION)
DELTA_ARTIFACT = ("io.delta", "delta-spark_2.13", "4.0.0")  # 4.2.0 needs a later Spark 4.0
DELTA_GROUPS = "io.delta,io.unitycatalog"  # the rest of its dependencies comes with Spark
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"spark-connector-{VERSION}"
ENVIRONMENT = CACHE / "venv"
LIBRARIES = CACHE / "libs"
COMPLETE = CACHE / "complete"
DELTA_LIBRARIES = CACHE / f"delta-{DELTA_ARTIFACT[2]}"
TIMEOUT_S = 1_800


class ConnectorUnavailable(Exception):
    """The environment cannot be created; the text says why."""


def python() -> Path:
    """The interpreter of the environment."""
    return ENVIRONMENT / "bin" / "python"


def jars() -> list[Path]:
    """The jars for Spark's class path."""
    return sorted(LIBRARIES.glob("*.jar"))


def delta_jars() -> list[Path]:
    """The jars of delta-spark, in addition to `jars()`."""
    return sorted(DELTA_LIBRARIES.glob("*.jar"))


def prepare_delta() -> None:
    """Create the environment, and fetch delta-spark; raise ConnectorUnavailable if that fails."""
    prepare()
    if not delta_jars():
        _copy_jars(
            "delta-spark", DELTA_ARTIFACT, DELTA_LIBRARIES, f"-DincludeGroupIds={DELTA_GROUPS}"
        )


def is_complete() -> bool:
    """True if the environment and all jars of these versions exist."""
    if not COMPLETE.exists() or not python().exists():
        return False
    wanted, *names = COMPLETE.read_text().splitlines()
    return wanted == _signature() and all((LIBRARIES / name).exists() for name in names)


def prepare() -> None:
    """Create the environment if necessary; raise ConnectorUnavailable if that fails."""
    if is_complete():
        return
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        raise ConnectorUnavailable(f"missing: {', '.join(missing)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_complete():
            _create()


def _create() -> None:
    for directory in (ENVIRONMENT, LIBRARIES):
        shutil.rmtree(directory, ignore_errors=True)
    _run("the environment", [sys.executable, "-m", "venv", os.fspath(ENVIRONMENT)])
    pip = [os.fspath(python()), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run(f"PySpark {VERSION}", [*pip, *PACKAGES])
    _copy_jars("the connector's jars", ARTIFACT, LIBRARIES)
    COMPLETE.write_text("\n".join([_signature(), *(jar.name for jar in jars())]) + "\n")


def _copy_jars(title: str, artifact: tuple[str, str, str], place: Path, *options: str) -> None:
    project = CACHE / "pom.xml"
    project.write_text(_project(artifact))
    command = ["mvn", "--quiet", "--batch-mode", "--file", os.fspath(project)]
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={place}"]
    _run(title, [*command, *goal, "-DincludeScope=runtime", *options])


def _run(title: str, command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as failure:
        raise ConnectorUnavailable(f"installing {title} failed: {failure}") from failure


def _signature() -> str:
    return " ".join([*PACKAGES, ":".join(ARTIFACT)])


def _project(artifact: tuple[str, str, str]) -> str:
    group, name, version = artifact
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>sawlog</groupId>"
        "<artifactId>spark-connector</artifactId><version>1</version><dependencies><dependency>"
        f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "</dependency></dependencies></project>\n"
    )


def main() -> int:
    try:
        prepare()
    except ConnectorUnavailable as missing:
        print(f"Spark's Kafka connector {VERSION} is not available: {missing}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
