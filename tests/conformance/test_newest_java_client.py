"""The Java client of Apache Kafka 4.4.0 against Sawlog.

It is newer than the tools and the broker that other tests run, whose version is 4.3.0: it sends
ApiVersions 5 with the cluster and the node that it expects (KIP-1242), and DeleteGroups 3.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.programs import require_java
from tools.kafka_jars import CLIENTS_JAR

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("RunNewestClient.java")
DEPENDENCIES = ("slf4j-*.jar", "zstd-jni-*.jar")
LOG = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=debug"
TIMEOUT_S = 60
COUNT = 100


def run_newest_client(*arguments: str) -> subprocess.CompletedProcess[str]:
    libraries = Path(require_java().removesuffix("/*"))
    jars = [CLIENTS_JAR, *(jar for name in DEPENDENCIES for jar in libraries.glob(name))]
    command = ["java", LOG, "-cp", ":".join(map(os.fspath, jars)), os.fspath(PROGRAM)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def test_client_of_kafka_4_4_writes_reads_and_deletes_its_group(broker, topic: str) -> None:
    done = run_newest_client(broker.bootstrap, topic, str(COUNT))
    assert done.returncode == 0, done.stderr
    *values, while_a_member, afterwards, once_more = done.stdout.splitlines()
    assert values == [f"value {number}" for number in range(COUNT)]
    assert while_a_member == "GroupNotEmptyException"
    assert (afterwards, once_more) == ("deleted", "GroupIdNotFoundException")
    named = set(
        re.findall(r"ApiVersionsRequestData\(.*clusterId='([^']+)', nodeId=(\d+)", done.stderr)
    )
    assert len(named) == 1, "the client names the broker that it expects, and stays with it"
    assert "REBOOTSTRAP_REQUIRED" not in done.stderr
    assert re.search(r"apiKey=DELETE_GROUPS, apiVersion=3", done.stderr)
