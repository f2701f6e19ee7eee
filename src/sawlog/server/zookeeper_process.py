"""A ZooKeeper server on this machine: its jars, its configuration file and its command line.

The jars of ZooKeeper 3.9 are inside the PySpark wheel; Debian's package `zookeeper` has 3.8.
"""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from sawlog.server.address import Address

TICK_MS = 100
"""ZooKeeper's unit of time: it ends sessions up to one tick late, so a short one makes failover
faster."""
MIN_SESSION_MS, MAX_SESSION_MS = 1_000, 40_000
"""The session timeouts that the server grants, whatever the tick is."""
HEAP_MIB = 128
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CONFIG_FILE = "zoo.cfg"
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.apache.logging.log4j.level=ERROR",  # of the jars in PySpark
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",  # of Debian's jars
)
FAST_START = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM options for servers that live for seconds."""

_PYSPARK_JARS = (
    "zookeeper-3.*.jar",
    "zookeeper-jute-3.*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
)
DEBIAN_DIRECTORY = Path("/usr/share/java")
_DEBIAN_JARS = (
    "zookeeper.jar",
    "zookeeper-jute.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
    "metrics-core.jar",
    "snappy-java.jar",
)
_ATTEMPT_S = 2.0  # a server that is starting may leave a client without a response


class ZooKeeperUnavailable(Exception):
    """A ZooKeeper server cannot run on this machine; the text says what is missing."""


def zookeeper_jars(debian_directory: Path = DEBIAN_DIRECTORY) -> list[Path]:
    """Return ZooKeeper's jar and those it needs: of PySpark, else of Debian's package."""
    spec = importlib.util.find_spec("pyspark")
    for directory in (spec.submodule_search_locations or []) if spec is not None else []:
        found = [sorted(Path(directory, "jars").glob(pattern)) for pattern in _PYSPARK_JARS]
        if all(found):
            return [jars[-1] for jars in found]
    jars = [debian_directory / name for name in _DEBIAN_JARS]
    if all(jar.exists() for jar in jars):
        return jars
    raise ZooKeeperUnavailable(
        "the jars of ZooKeeper are missing: pip install 'sawlog[spark]' (they are part of PySpark),"
        " or apt-get install zookeeper, or name a running ensemble with --zookeeper"
    )


class ZooKeeperServer:
    """The files and the command of one standalone server; `data` is created by `write_config`."""

    def __init__(self, data: Path, listen: Address) -> None:
        self.data = data
        self.listen = listen

    def write_config(self) -> Path:
        """Write the configuration file into the data directory and return its path."""
        self.data.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": os.fspath(self.data.absolute()),
            "clientPort": str(self.listen.port),
            "clientPortAddress": self.listen.host or "0.0.0.0",
            "tickTime": str(TICK_MS),
            "minSessionTimeout": str(MIN_SESSION_MS),
            "maxSessionTimeout": str(MAX_SESSION_MS),
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "24",
        }
        config = self.data.absolute() / CONFIG_FILE
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return config

    def command(self, options: Sequence[str] = ()) -> list[str]:
        """Return the command line; ZooKeeperUnavailable without Java or the jars."""
        java = shutil.which("java")
        if java is None:
            raise ZooKeeperUnavailable(
                "java is missing: install the package openjdk-17-jre-headless"
            )
        jars = os.pathsep.join(map(os.fspath, zookeeper_jars()))
        heap = f"-Xmx{HEAP_MIB}m"
        config = os.fspath(self.data.absolute() / CONFIG_FILE)
        return [java, heap, *JVM_OPTIONS, *options, "-cp", jars, MAIN_CLASS, config]


def is_serving(address: Address, timeout_s: float) -> bool:
    """Tell whether a client can open a session within the timeout."""
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.retry import KazooRetry

    from sawlog.server.kazoo_handler import kazoo_logger

    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1)
    client = KazooClient(
        str(address), timeout=_ATTEMPT_S, connection_retry=retry, logger=kazoo_logger
    )
    try:
        client.start(timeout_s)
    except KazooTimeoutError:
        return False
    client.stop()
    client.close()
    return True
