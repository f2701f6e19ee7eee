"""kafka-configs of Apache Kafka, for topics, brokers, groups and loggers.

The tool validates names itself where it can, asks every API that it needs, and prints sources.
"""

import pytest

from support.kafka.kafka_broker import run_tool

pytestmark = pytest.mark.long

CONFIGS = "kafka.admin.ConfigCommand"
BROKER = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1")


class ConfigsTool:
    """Runs kafka-configs against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _run(self, *arguments: str) -> tuple[int, str]:
        done = run_tool(CONFIGS, "--bootstrap-server", self._bootstrap, *arguments)
        return done.returncode, done.stdout + done.stderr

    def run(self, *arguments: str) -> str:
        code, output = self._run(*arguments)
        assert code == 0, output
        return output

    def refused(self, *arguments: str) -> str:
        code, output = self._run(*arguments)
        assert code != 0, output
        return output

    def add(self, entity: tuple[str, ...], configs: str) -> str:
        return self.run(*entity, "--alter", "--add-config", configs)

    def delete(self, entity: tuple[str, ...], names: str) -> str:
        return self.run(*entity, "--alter", "--delete-config", names)

    def describe(self, entity: tuple[str, ...], *more: str) -> str:
        return self.run(*entity, "--describe", *more)


@pytest.fixture
def tool(broker) -> ConfigsTool:
    return ConfigsTool(broker.bootstrap)


def test_settings_of_one_broker_and_of_all(tool: ConfigsTool, create_topic, topic: str) -> None:
    create_topic(topic)
    name = "log.index.interval.bytes"
    try:
        assert "Completed updating default config" in tool.add(ALL_BROKERS, f"{name}=4097")
        assert "Completed updating config for broker 1" in tool.add(BROKER, f"{name}=4098")
        assert (
            f"{name}=4098 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{name}=4098,"
            f" DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=4097, DEFAULT_CONFIG:{name}=4096}}"
        ) in tool.describe(BROKER)
        assert f"{name}=4097" in tool.describe(ALL_BROKERS)
        inherited = tool.describe(("--entity-type", "topics", "--entity-name", topic), "--all")
        assert "index.interval.bytes=4098" in inherited
    finally:
        tool.delete(BROKER, name)
        tool.delete(ALL_BROKERS, name)
    assert name not in tool.describe(BROKER)


def test_refused_settings_of_a_broker(tool: ConfigsTool) -> None:
    read_only = tool.refused(*BROKER, "--alter", "--add-config", "num.partitions=3")
    assert "Cannot update these configs dynamically: [num.partitions]" in read_only
    invalid = tool.refused(*BROKER, "--alter", "--add-config", "log.segment.bytes=1")
    assert "Invalid value 1 for configuration log.segment.bytes" in invalid
    per_broker = tool.refused(*ALL_BROKERS, "--alter", "--add-config", "listeners=PLAINTEXT://:1")
    assert "broker id must be specified" in per_broker


def test_settings_of_a_group(tool: ConfigsTool, topic: str) -> None:
    group = ("--entity-type", "groups", "--entity-name", topic)
    tool.add(group, "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
    described = tool.describe(group)
    assert "consumer.session.timeout.ms=50000" in described
    assert "DYNAMIC_GROUP_CONFIG:consumer.heartbeat.interval.ms=6000" in described
    listed = tool.run("--entity-type", "groups", "--describe")
    assert f"Dynamic configs for group {topic} are" in listed
    low = tool.refused(*group, "--alter", "--add-config", "consumer.session.timeout.ms=1")
    assert "group.consumer.min.session.timeout.ms" in low
    tool.delete(group, "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    assert "50000" not in tool.describe(group)


def test_levels_of_loggers(tool: ConfigsTool) -> None:
    name = "sawlog.core.config_dynamic"
    tool.add(LOGGERS, f"{name}=DEBUG")
    described = tool.describe(LOGGERS)
    assert f"{name}=DEBUG" in described
    assert "root=INFO" in described
    tool.delete(LOGGERS, name)
    refused = tool.refused(*LOGGERS, "--alter", "--add-config", f"{name}=LOUD")
    assert "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN" in refused
