"""The command-line tools of Apache Kafka 4.3.0, which use the Java client."""

import json
import re
from pathlib import Path

import pytest

from support.client_libraries.client_library import CODECS, Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.kafka_broker import run_tool

pytestmark = pytest.mark.long

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"


class Tools:
    """Runs tools against one broker; an error or a warning fails the test."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def run(self, tool: str, *arguments: str, stdin: str | None = None) -> str:
        done = run_tool(tool, "--bootstrap-server", self._bootstrap, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, tool: str, *arguments: str) -> str:
        done = run_tool(tool, "--bootstrap-server", self._bootstrap, *arguments)
        assert done.returncode != 0
        return done.stdout + done.stderr


@pytest.fixture
def tools(broker) -> Tools:
    return Tools(broker.bootstrap)


def test_kafka_topics(tools: Tools, topic: str) -> None:
    created = tools.run(TOPICS, "--create", "--topic", topic, "--partitions", "3")
    assert f"Created topic {topic}" in created
    assert topic in tools.run(TOPICS, "--list").splitlines()
    described = tools.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert described.count("Leader: 1") == 3
    tools.run(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tools.run(TOPICS, "--describe", "--topic", topic)
    assert "already exists" in tools.refused(TOPICS, "--create", "--topic", topic)
    tools.run(TOPICS, "--delete", "--topic", topic)
    assert topic not in tools.run(TOPICS, "--list").splitlines()
    assert "does not exist" in tools.refused(TOPICS, "--describe", "--topic", topic)


def test_kafka_configs(tools: Tools, create_topic, topic: str) -> None:
    create_topic(topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    changes = "retention.ms=5000,cleanup.policy=[compact,delete]"
    tools.run(CONFIGS, *entity, "--alter", "--add-config", changes)
    described = tools.run(CONFIGS, *entity, "--describe")
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in (
        described
    )
    assert "cleanup.policy=compact,delete" in described
    tools.run(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=5000" not in tools.run(CONFIGS, *entity, "--describe")
    everything = tools.run(CONFIGS, *entity, "--describe", "--all")
    assert "retention.ms=604800000" in everything
    brokers = tools.run(CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe")
    assert "Dynamic configs for broker 1" in brokers
    refusal = tools.refused(CONFIGS, *entity, "--alter", "--add-config", "no.such.config=1")
    assert "no.such.config" in refusal


def test_kafka_get_offsets_and_delete_records(
    tools: Tools, confluent: Confluent, create_topic, topic: str, tmp_path: Path
) -> None:
    create_topic(topic, 2)
    rows = [Row(b"x", timestamp_ms=1_700_000_000_000 + number) for number in range(10)]
    confluent.produce(topic, rows)
    one = ("--topic", topic)
    assert tools.run(OFFSETS, *one).split() == [f"{topic}:0:10", f"{topic}:1:0"]
    assert tools.run(OFFSETS, *one, "--time", "1700000000004").split()[0] == f"{topic}:0:4"
    assert f"{topic}:0:9" in tools.run(OFFSETS, *one, "--time", "max-timestamp").split()
    file = offset_file(tmp_path, {(topic, 0): 6})
    deleted = tools.run(DELETE_RECORDS, "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 6" in deleted
    earliest = tools.run(OFFSETS, *one, "--time", "earliest").split()
    assert earliest == [f"{topic}:0:6", f"{topic}:1:0"]


def test_kafka_log_dirs(
    tools: Tools, confluent: Confluent, create_topic, topic: str, broker
) -> None:
    create_topic(topic, 2)
    other = create_topic(f"{topic}-other")
    confluent.produce(topic, [Row(b"x" * 1_000)])

    def describe(*arguments: str) -> dict[str, tuple[int, int, bool]]:
        output = tools.run(LOG_DIRS, "--describe", *arguments)
        (node,) = json.loads(output.splitlines()[-1])["brokers"]
        (log_dir,) = node["logDirs"]
        assert (node["broker"], log_dir["error"]) == (1, None)
        assert Path(log_dir["logDir"]) == Path(broker.data).resolve()
        replicas = log_dir["partitions"]
        return {
            each["partition"]: (each["size"], each["offsetLag"], each["isFuture"])
            for each in replicas
        }

    everything = describe()
    some = describe("--topic-list", f"{topic},no-such-topic", "--broker-list", "1")
    size = some[f"{topic}-0"][0]
    assert 1_000 < size < 1_200
    assert some == {f"{topic}-0": (size, 0, False), f"{topic}-1": (0, 0, False)}
    assert everything.items() >= {**some, f"{other}-0": (0, 0, False)}.items()


def test_kafka_leader_election(tools: Tools, create_topic, topic: str) -> None:
    create_topic(topic)
    partition = ("--topic", topic, "--partition", "0")
    elected = tools.run(LEADER_ELECTION, "--election-type", "PREFERRED", *partition)
    assert f"Valid replica already elected for partitions {topic}-0" in elected
    tools.run(LEADER_ELECTION, "--election-type", "UNCLEAN", "--all-topic-partitions")


def test_kafka_reassign_partitions(tools: Tools, create_topic, topic: str, tmp_path: Path) -> None:
    """On one broker there is nowhere to move a replica: plans that change nothing, and bad ones."""
    create_topic(topic)
    plan = tmp_path / "plan.json"

    def write(*replicas: int) -> None:
        partition = {"topic": topic, "partition": 0, "replicas": replicas}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))

    write(1)
    execute = ("--reassignment-json-file", str(plan), "--execute")
    assert f"started partition reassignment for {topic}-0" in tools.run(REASSIGN, *execute)
    verified = tools.run(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "No partition reassignments found." in tools.run(REASSIGN, "--list")
    write(1, 4711)
    assert "Unknown broker id 4711" in tools.refused(REASSIGN, *execute)


def test_kafka_configs_of_users_clients_and_addresses(tools: Tools) -> None:
    """The tool asks for client quotas, and for the SCRAM credentials of users."""
    for kind in ("users", "clients", "ips"):
        described = tools.run(CONFIGS, "--entity-type", kind, "--describe")
        assert described == ""
    named = tools.run(CONFIGS, "--entity-type", "users", "--entity-name", "anna", "--describe")
    assert named == ""


def offset_file(directory: Path, offsets: dict[tuple[str, int], int]) -> Path:
    """The file that kafka-delete-records reads: the new first offset of each partition."""
    partitions = [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in offsets.items()
    ]
    file = directory / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return file


def test_kafka_delete_records_answers_each_partition_by_itself(
    tools: Tools, confluent: Confluent, create_topic, topic: str, tmp_path: Path
) -> None:
    create_topic(topic, 3)
    create_topic(compacted := f"{topic}-compacted", cleanup_policy="compact")
    rows = [Row(b"x", b"key", partition=number % 3) for number in range(30)]
    confluent.produce(topic, rows)
    confluent.produce(compacted, [Row(b"x", b"key")])
    everything, beyond_the_end = -1, 11
    offsets = {(topic, 0): everything, (topic, 1): beyond_the_end, (topic, 2): 4}
    file = offset_file(tmp_path, offsets | {(compacted, 0): 1})
    output = tools.run(DELETE_RECORDS, "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 10" in output
    assert re.search(rf"partition: {topic}-1\terror: .*not within the range of offsets", output)
    assert f"partition: {topic}-2\tlow_watermark: 4" in output
    assert re.search(rf"partition: {compacted}-0\terror: .*PolicyViolation", output)
    ranges = (("earliest", (10, 0, 4), 0), ("latest", (10, 10, 10), 1))
    for time, expected, end in ranges:
        lines = [f"{topic}:{index}:{offset}" for index, offset in enumerate(expected)]
        lines.append(f"{compacted}:0:{end}")
        found = tools.run(OFFSETS, "--topic-partitions", f"{topic},{compacted}", "--time", time)
        assert sorted(found.split()) == sorted(lines)
    assert [row.value for row in confluent.consume(topic, 6, partition=2, offset=4)] == [b"x"] * 6


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_and_consumer(tools: Tools, create_topic, topic: str, codec: str) -> None:
    create_topic(topic)
    lines = [f"key{number}:value {number}" for number in range(500)]
    properties = ("parse.key=true", "key.separator=:")
    options = [option for each in properties for option in ("--reader-property", each)]
    codecs = ("--compression-codec", codec)
    tools.run(PRODUCER, "--topic", topic, *options, *codecs, stdin="\n".join(lines))
    place = ("--topic", topic, "--partition", "0")
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    for offset, start in (("earliest", 0), ("400", 400)):
        count = ("--max-messages", str(len(lines) - start))
        consumed = tools.run(CONSUMER, *place, "--offset", offset, *shown, *count)
        assert consumed.splitlines() == lines[start:]


@pytest.mark.parametrize("acks", ["-1", "1", "0"])
def test_verifiable_producer(
    tools: Tools, confluent: Confluent, create_topic, topic: str, acks: str
) -> None:
    create_topic(topic)
    count = 2_000
    limits = ("--max-messages", str(count), "--throughput", "-1", "--acks", acks)
    output = tools.run(VERIFIABLE_PRODUCER, "--topic", topic, *limits)
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    successes = [each for each in events if each["name"] == "producer_send_success"]
    assert sorted(int(each["value"]) for each in successes) == list(range(count))
    rows = confluent.consume(topic, count)
    assert [int(row.value or b"") for row in rows] == list(range(count))
