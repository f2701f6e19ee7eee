"""Dynamic configs of brokers, groups, subscriptions and loggers take effect and survive a restart.

`tests/transcripts` compares the responses with Apache Kafka's.
"""

import logging
from collections.abc import Iterator

import pytest

from sawlog.broker.api.config_entries import describe_group
from sawlog.broker.log_configs import LOG_SETTINGS
from sawlog.core.config import BrokerConfig
from sawlog.core.config_broker import BROKER_SETTINGS
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.config_dynamic_names import DYNAMIC_SETTINGS
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages import incremental_alter_configs_request as incremental
from sawlog.protocol.messages import list_config_resources_request as listing
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine
from support.broker.requests import NAMED, answers, batch_of, machine_with_topic, produce

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
ONE, ALL = str(NODE), ""
OF_TOPIC, OF_BROKER, OF_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5


@pytest.fixture
def machine() -> SimulatedMachine:
    machine = SimulatedMachine(1, log_segment_bytes="2000000")
    machine.boot()
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    machine.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    return machine


def alter(machine: SimulatedMachine, kind: int, name: str, **configs: str | None) -> int:
    """Set these configs, None: delete; return the error code."""
    changes = [
        incremental.AlterableConfig(
            name=key.replace("_", "."), config_operation=int(value is None), value=value
        )
        for key, value in configs.items()
    ]
    resource = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    code: int = machine.ask(request).responses[0].error_code
    return code


def entry(machine: SimulatedMachine, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """The value and the source of one config."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[key]
    )
    (found,) = machine.ask(DescribeConfigsRequest(resources=[resource])).results[0].configs
    return found.value, found.config_source


def logs(machine: SimulatedMachine):
    return [replica.log for replica in machine.broker.replicas.by_partition.values()]


def test_open_logs_follow_the_settings_of_brokers(machine: SimulatedMachine) -> None:
    changes = {
        "log_flush_interval_messages": ("9", "flush_messages", 9),
        "log_flush_interval_ms": ("8", "flush_ms", 8),
        "log_index_interval_bytes": ("4097", "index_interval_bytes", 4_097),
        "log_index_size_max_bytes": ("4098", "segment_index_bytes", 4_098),
        "log_message_timestamp_type": ("LogAppendTime", "timestamp_type", "LogAppendTime"),
        "log_message_timestamp_before_max_ms": ("11", "timestamp_before_max_ms", 11),
        "log_message_timestamp_after_max_ms": ("12", "timestamp_after_max_ms", 12),
        "log_roll_jitter_ms": ("13", "segment_jitter_ms", 13),
        "log_retention_ms": ("60000", "retention_ms", 60_000),
        "log_retention_bytes": ("5000", "retention_bytes", 5_000),
        "log_segment_bytes": ("3000000", "segment_bytes", 3_000_000),
        "log_roll_ms": ("70000", "segment_ms", 70_000),
        "log_cleanup_policy": ("compact", "cleanup_policy", {"compact"}),
        "message_max_bytes": ("777", "max_message_bytes", 777),
        "compression_type": ("lz4", "compression_type", "lz4"),
        "min_insync_replicas": ("2", "min_insync_replicas", 2),
        "log_cleaner_min_cleanable_ratio": ("0.25", "min_cleanable_dirty_ratio", 0.25),
        "log_cleaner_min_compaction_lag_ms": ("14", "min_compaction_lag_ms", 14),
        "log_cleaner_max_compaction_lag_ms": ("15000", "max_compaction_lag_ms", 15_000),
        "log_cleaner_delete_retention_ms": ("16", "delete_retention_ms", 16),
        "log_segment_delete_delay_ms": ("17", "file_delete_delay_ms", 17),
        "producer_id_expiration_ms": ("999", "producer_id_expiration_ms", 999),
    }
    followed = {name.replace("_", ".") for name in changes}
    effective = BROKER_SETTINGS.keys() & DYNAMIC_SETTINGS & LOG_SETTINGS
    codec = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
    elections = ("unclean.leader.election.enable",)  # the controller's
    assert effective - followed - set(codec) - set(elections) == set()
    for name, (text, field, value) in changes.items():
        assert alter(machine, BROKER, ALL, **{name: text}) == 0
        assert [getattr(log.config, field) for log in logs(machine)] == [value, value], name
    machine.kill()
    machine.boot()
    for text, field, value in changes.values():
        assert [getattr(log.config, field) for log in logs(machine)] == [value, value], text
    for name in changes:
        if name != "min_insync_replicas":
            assert alter(machine, BROKER, ALL, **{name: None}) == 0
    assert {log.config.segment_bytes for log in logs(machine)} == {2_000_000}
    assert {log.config.retention_ms for log in logs(machine)} == {604_800_000}


def test_a_topics_own_value_stays_when_the_brokers_changes(machine: SimulatedMachine) -> None:
    assert alter(machine, TOPIC, "t", retention_ms="1000") == 0
    assert alter(machine, BROKER, ONE, log_retention_ms="2000") == 0
    assert {log.config.retention_ms for log in logs(machine)} == {1_000}
    assert entry(machine, TOPIC, "t", "retention.ms") == ("1000", OF_TOPIC)
    assert alter(machine, TOPIC, "t", retention_ms=None) == 0
    assert entry(machine, TOPIC, "t", "retention.ms") == ("2000", OF_BROKER)
    assert {log.config.retention_ms for log in logs(machine)} == {2_000}


def test_sources_show_the_precedence(machine: SimulatedMachine) -> None:
    key, topic_key = "log.segment.bytes", "segment.bytes"
    assert entry(machine, BROKER, ONE, key) == ("2000000", STATIC)
    alter(machine, BROKER, ALL, log_segment_bytes="3000000")
    assert entry(machine, BROKER, ONE, key) == ("3000000", OF_BROKERS)
    alter(machine, BROKER, ONE, log_segment_bytes="4000000")
    assert entry(machine, BROKER, ONE, key) == ("4000000", OF_BROKER)
    assert entry(machine, BROKER, ALL, key) == ("3000000", OF_BROKERS)
    assert entry(machine, TOPIC, "t", topic_key) == ("4000000", OF_BROKER)
    machine.kill()
    machine.boot()
    assert entry(machine, TOPIC, "t", topic_key) == ("4000000", OF_BROKER)
    alter(machine, BROKER, ONE, log_segment_bytes=None)
    alter(machine, BROKER, ALL, log_segment_bytes=None)
    assert entry(machine, TOPIC, "t", topic_key) == ("2000000", STATIC)


def test_a_refused_change_changes_nothing(machine: SimulatedMachine) -> None:
    assert alter(machine, BROKER, ONE, log_retention_ms="5", num_partitions="5") == 42
    assert entry(machine, BROKER, ONE, "log.retention.ms") == (None, DEFAULT)


def test_power_loss_keeps_acknowledged_configs(machine: SimulatedMachine) -> None:
    assert alter(machine, BROKER, ONE, message_max_bytes="777") == 0
    assert alter(machine, GROUP, "g", consumer_session_timeout_ms="50000") == 0
    machine.lose_power()
    machine.boot()
    assert entry(machine, BROKER, ONE, "message.max.bytes") == ("777", OF_BROKER)
    assert entry(machine, GROUP, "g", "consumer.session.timeout.ms") == ("50000", 8)


def test_the_value_of_an_unknown_config_is_hidden(machine: SimulatedMachine) -> None:
    assert alter(machine, BROKER, ONE, a_password="x") == 0
    assert entry(machine, BROKER, ONE, "a.password") == (None, OF_BROKER)


def test_old_segments_go_after_a_change_of_the_brokers_retention() -> None:
    machine = machine_with_topic(configs={"internal.segment.bytes": "200"})
    for _ in range(5):
        machine.ask(produce(batch_of(machine, bytes(100))), NAMED)
    (log,) = logs(machine)
    machine.schedule.run_for(400_000)
    assert log.start_offset == 0
    assert alter(machine, BROKER, ALL, log_retention_bytes="1") == 0
    machine.schedule.run_for(400_000)
    assert log.start_offset == 4


def test_records_are_refused_by_the_brokers_present_settings() -> None:
    machine = machine_with_topic()

    def code(size: int) -> int:
        response = machine.ask(produce(batch_of(machine, bytes(size))), NAMED)
        return answers(response)[0][0]

    assert code(1_000) == ErrorCode.NONE
    alter(machine, BROKER, ONE, message_max_bytes="500")
    assert code(1_000) == ErrorCode.MESSAGE_TOO_LARGE
    alter(machine, BROKER, ONE, message_max_bytes=None)
    alter(machine, BROKER, ALL, min_insync_replicas="2")
    assert code(1_000) == ErrorCode.NOT_ENOUGH_REPLICAS
    alter(machine, BROKER, ALL, min_insync_replicas="1")
    assert code(1_000) == ErrorCode.NONE


def test_configs_that_are_too_large_for_the_store_are_refused(machine: SimulatedMachine) -> None:
    many = {f"custom_setting_{number}": "x" * 32_000 for number in range(40)}
    assert alter(machine, BROKER, ONE, **many) == ErrorCode.INVALID_REQUEST
    assert entry(machine, BROKER, ONE, "log.retention.ms") == (None, DEFAULT)


# Resources


def resources(machine: SimulatedMachine, *types: int, version: int = 1) -> list[tuple[int, str]]:
    request = listing.ListConfigResourcesRequest(resource_types=list(types))
    found = machine.ask(request, version).config_resources
    return [(each.resource_type, each.resource_name) for each in found]


def test_resources_with_configs_are_listed(machine: SimulatedMachine) -> None:
    assert resources(machine) == [(TOPIC, "t"), (BROKER, ONE), (LOGGER, ONE)]
    alter(machine, GROUP, "g", consumer_session_timeout_ms="50000")
    alter(machine, METRICS, "m", interval_ms="1000")
    assert resources(machine, METRICS, GROUP) == [(METRICS, "m"), (GROUP, "g")]
    assert resources(machine, version=0) == [(METRICS, "m")]
    alter(machine, GROUP, "g", consumer_session_timeout_ms=None)
    assert resources(machine, GROUP) == []


# Loggers


@pytest.fixture
def restored() -> Iterator[None]:
    name = "sawlog.broker.replicas"
    yield
    logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("restored")
def test_the_level_of_a_logger_decides_what_is_logged(
    machine: SimulatedMachine, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("sawlog.broker.replicas")
    assert alter(machine, LOGGER, ONE, sawlog_broker_replicas="ERROR") == 0
    assert entry(machine, LOGGER, ONE, logger.name) == ("ERROR", 6)
    logger.warning("hidden")
    assert alter(machine, LOGGER, ONE, sawlog_broker_replicas="DEBUG") == 0
    logger.debug("shown")
    assert [record.getMessage() for record in caplog.records] == ["shown"]
    assert alter(machine, LOGGER, ONE, sawlog_broker_replicas="LOUD") == 40
    assert alter(machine, LOGGER, ONE, sawlog_broker_replicas=None) == 0
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize("kind", [TOPIC, BROKER, LOGGER, METRICS, GROUP])
def test_the_value_of_a_deletion_is_ignored(machine: SimulatedMachine, kind: int) -> None:
    """Java clients send an empty text."""
    name, key = ("t", "flush.ms") if kind == TOPIC else (ONE, "sawlog.broker.replicas")
    change = incremental.AlterableConfig(name=key, config_operation=1, value="")
    resource = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    assert machine.ask(request).responses[0].error_code == 0


def test_the_log_cleaner_follows_the_settings_of_brokers(machine: SimulatedMachine) -> None:
    cleaner = machine.broker.components.directory.cleaner
    settings = {"log_cleaner_backoff_ms": "50", "log_cleaner_dedupe_buffer_size": "9000000"}
    assert alter(machine, BROKER, ALL, **settings) == 0
    assert (cleaner.config.backoff_ms, cleaner.config.dedupe_buffer_size) == (50, 9_000_000)
    machine.kill()
    machine.boot()
    assert machine.broker.components.directory.cleaner.config.backoff_ms == 50


def test_groups_with_the_same_settings_are_described_once_per_version_of_the_broker() -> None:
    """A request may name very many groups: each must cost next to nothing."""
    broker = DynamicBrokerConfig(BrokerConfig())

    def described(**given: str):
        return describe_group(broker, given, with_synonyms=False, with_documentation=False)

    first = described()
    assert described() is first
    assert described(unknown="1") is not first
    broker.reconfigure({"group.consumer.assignment.interval.ms": "7"}, {})
    values = {entry.name: entry.value for entry in described()}
    assert values["consumer.assignment.interval.ms"] == "7"
