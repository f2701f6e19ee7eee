"""Fetch the jars of Apache Kafka 4.3.0 into `.cache/` with Maven, for tests and benchmarks.

`python -m tools.kafka_jars` does nothing if they are complete. If Maven or Java is missing, it
prints one line and succeeds. `classpath()` returns the argument of `java -cp`, or None.

The jar of the 4.4.0 client is fetched as well, beside them: `protocol/messages` is generated from
it, and a test runs it. Of 4.4.0, Maven Central has the client but not the broker and its tools.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

KAFKA_VERSION = "4.3.0"
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),  # brings Connect's runtime with it
    ("org.apache.kafka", "connect-file", KAFKA_VERSION),
    ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    # Kafka depends on slf4j 1.7 without a binding; this one writes to stderr.
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"kafka-{KAFKA_VERSION}"
LIBRARIES = CACHE / "libs"
COMPLETE = CACHE / "complete"
CLIENTS_VERSION = "4.4.0"
CLIENTS_JAR = CACHE / "clients" / f"kafka-clients-{CLIENTS_VERSION}.jar"
"""Not among the libraries: the broker runs with the client classes of its own version."""


def classpath() -> str | None:
    """The class path of Kafka's server and tools, or None if the jars are not complete."""
    return f"{LIBRARIES}/*" if is_complete() else None


def is_complete() -> bool:
    """True if all jars that Maven resolved for these artifacts exist."""
    if not COMPLETE.exists() or not CLIENTS_JAR.exists():
        return False
    wanted, *names = COMPLETE.read_text().splitlines()
    return wanted == _signature() and all((LIBRARIES / name).exists() for name in names)


def fetch() -> None:
    """Resolve the artifacts with Maven; raise CalledProcessError if that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete():
            return
        shutil.rmtree(LIBRARIES, ignore_errors=True)
        project = CACHE / "pom.xml"
        project.write_text(_project())
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(project)]
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={LIBRARIES}"]
        subprocess.run([*command, *goal, "-DincludeScope=runtime"], check=True)
        clients = f"-Dartifact=org.apache.kafka:kafka-clients:{CLIENTS_VERSION}"
        goal = ["dependency:copy", clients, f"-DoutputDirectory={CLIENTS_JAR.parent}"]
        subprocess.run([*command, *goal], check=True)
        names = sorted(jar.name for jar in LIBRARIES.glob("*.jar"))
        COMPLETE.write_text("\n".join([_signature(), *names]) + "\n")


def _signature() -> str:
    return " ".join(":".join(artifact) for artifact in ARTIFACTS)


def _project() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
        f"<version>{escape(version)}</version></dependency>"
        for group, name, version in ARTIFACTS
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>sawlog</groupId>"
        "<artifactId>kafka-jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def main() -> int:
    if is_complete():
        return 0
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        print(
            f"missing: {', '.join(missing)}; Apache Kafka {KAFKA_VERSION} cannot be fetched, "
            "tests that need it are skipped",
            file=sys.stderr,
        )
        return 0
    print(f"fetching Apache Kafka {KAFKA_VERSION} with Maven", file=sys.stderr)
    try:
        fetch()
    except subprocess.CalledProcessError as failure:
        print(
            f"Maven could not fetch Apache Kafka {KAFKA_VERSION} (exit {failure.returncode}); "
            "tests that need it are skipped",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
