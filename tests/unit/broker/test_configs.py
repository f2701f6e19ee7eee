"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, as a client sees them."""

from typing import Any

import pytest

from sawlog.broker.api import configs
from sawlog.core.config import INTERNAL_SETTINGS
from sawlog.protocol.messages import alter_configs_request as whole
from sawlog.protocol.messages import incremental_alter_configs_request as incremental
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sawlog.protocol.messages.describe_configs_response import DescribeConfigsResult
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OWN, CLUSTER_WIDE, STATIC, DEFAULT = 1, 3, 4, 5
Answer = tuple[int, str | None]


@pytest.fixture
def machine() -> SimulatedMachine:
    machine = SimulatedMachine(1, log_retention_hours="100", log_segment_bytes="2000000")
    machine.boot()
    topic = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
    )
    machine.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
    return machine


def describe(
    machine: SimulatedMachine,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    **more: bool,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **more)
    result: DescribeConfigsResult = machine.ask(request, version).results[0]
    return result


def values(machine: SimulatedMachine, *keys: str) -> list[str | None]:
    found = {c.name: c.value for c in describe(machine, TOPIC, "t", list(keys)).configs}
    return [found[key] for key in keys]


# DescribeConfigs


def test_topic_settings_have_value_source_and_type(machine: SimulatedMachine) -> None:
    result = describe(machine, TOPIC, "t")
    settings = {c.name: (c.value, c.config_source, c.config_type) for c in result.configs}
    assert settings["retention.ms"] == ("5000", OWN, 5)
    assert settings["segment.bytes"] == ("2000000", STATIC, 3)
    assert settings["cleanup.policy"] == ("delete", DEFAULT, 7)
    assert settings["min.insync.replicas"] == ("1", CLUSTER_WIDE, 3)
    assert settings["preallocate"] == ("false", DEFAULT, 1)
    assert len(settings) == 33
    assert not any(c.read_only or c.is_sensitive or c.synonyms for c in result.configs)
    assert all(c.documentation is None for c in result.configs)


def test_synonyms_and_documentation_are_returned_on_request(machine: SimulatedMachine) -> None:
    result = describe(
        machine,
        TOPIC,
        "t",
        ["retention.ms", "segment.bytes", "retention.bytes"],
        include_synonyms=True,
        include_documentation=True,
    )
    synonyms = {c.name: [(s.name, s.value, s.source) for s in c.synonyms] for c in result.configs}
    assert synonyms == {
        "retention.ms": [("retention.ms", "5000", OWN)],
        "segment.bytes": [
            ("log.segment.bytes", "2000000", STATIC),
            ("log.segment.bytes", "1073741824", DEFAULT),
        ],
        "retention.bytes": [("log.retention.bytes", "-1", DEFAULT)],
    }
    assert all(c.documentation for c in result.configs)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_only_requested_keys_are_returned_and_unknown_keys_ignored(
    machine: SimulatedMachine, version: int
) -> None:
    result = describe(machine, TOPIC, "t", ["flush.ms", "nope"], version=version)
    assert [c.name for c in result.configs] == ["flush.ms"]


def test_empty_key_list_means_all_keys(machine: SimulatedMachine) -> None:
    assert len(describe(machine, TOPIC, "t", []).configs) == 33


def described(
    machine: SimulatedMachine, *resources: tuple[int, str, list[str] | None]
) -> list[tuple[int, str, int, int]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ]
    )
    results = machine.ask(request).results
    return [(r.resource_type, r.resource_name, r.error_code, len(r.configs)) for r in results]


def test_resource_named_twice_is_described_once(machine: SimulatedMachine) -> None:
    """Otherwise a request of some kilobytes would have a response of many megabytes."""
    ((*_, code, count),) = described(machine, *[(BROKER, str(NODE), None)] * 1_000)
    assert code == 0
    assert count > 100
    assert described(
        machine,
        (TOPIC, "t", ["flush.ms"]),
        (BROKER, "", None),
        (TOPIC, "t", ["retention.ms", "flush.ms"]),
    ) == [(TOPIC, "t", 0, 2), (BROKER, "", 0, 1)]
    assert described(machine, (TOPIC, "t", ["flush.ms"]), (TOPIC, "t", None))[0][3] == 33


@pytest.mark.parametrize("name", ["01", "+1", " 1", "1_"])
def test_broker_id_with_leading_zero_is_rejected(machine: SimulatedMachine, name: str) -> None:
    assert described(machine, (BROKER, name, None)) == [(BROKER, name, 42, 0)]


def test_response_has_a_limit_of_settings(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "MAX_ENTRIES", 40)
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=1)], timeout_ms=1_000
    )
    machine.ask(create)
    answers = described(machine, (TOPIC, "t", None), (TOPIC, "u", None), (BROKER, "", None))
    assert answers == [(TOPIC, "t", 0, 33), (TOPIC, "u", 44, 0), (BROKER, "", 0, 1)]


def test_broker_settings_are_described(machine: SimulatedMachine) -> None:
    keys = ["log.retention.hours", "log.retention.ms", "flush.policy", "ssl.key.password"]
    result = describe(machine, BROKER, str(NODE), keys, include_synonyms=True)
    settings = {c.name: (c.value, c.config_source, c.is_sensitive) for c in result.configs}
    assert settings == {
        "log.retention.hours": ("100", STATIC, False),
        "log.retention.ms": (None, DEFAULT, False),
        "flush.policy": ("commit", DEFAULT, False),
        "ssl.key.password": (None, DEFAULT, True),
    }
    assert [c.name for c in result.configs if not c.read_only] == [
        "log.retention.ms",
        "ssl.key.password",
    ]


def test_broker_has_all_settings_of_kafka_and_its_own() -> None:
    machine = SimulatedMachine(1)
    machine.boot()
    names = {entry.name for entry in describe(machine, BROKER, str(NODE)).configs}
    assert {"flush.policy", "zookeeper.connect"} <= names
    assert not names & INTERNAL_SETTINGS
    assert len(names) == 345, "340 of Apache Kafka 4.3.0, flush.policy and four of ZooKeeper"


def test_internal_setting_is_described_only_if_set() -> None:
    machine = SimulatedMachine(1, server_max_startup_time_ms="5000")
    machine.boot()
    (entry,) = describe(machine, BROKER, str(NODE), ["server.max.startup.time.ms"]).configs
    assert (entry.value, entry.config_source) == ("5000", STATIC)


def test_empty_broker_name_describes_cluster_wide_settings(machine: SimulatedMachine) -> None:
    assert [c.name for c in describe(machine, BROKER, "").configs] == ["min.insync.replicas"]


@pytest.mark.parametrize(
    ("kind", "name", "code", "text"),
    [
        (TOPIC, "nope", 3, ""),
        (TOPIC, "bad name", 17, "Topic name is invalid"),
        (BROKER, "77", 42, "Unexpected broker id, expected 1 or empty string, but received 77"),
        (BROKER, "abc", 42, "Broker id must be an integer, but it is: abc"),
        (GROUP, "", 42, "Group name must not be empty"),
        (LOGGER, "9", 42, "Unexpected broker id, expected 1, but received 9"),
        (METRICS, "", 42, "Client metrics subscription name must not be empty"),
        (LOGGER, "", 42, "Broker id must not be empty"),
        (3, "x", 42, "This most likely occurs because of a request being malformed"),
    ],
)
def test_invalid_resource_is_rejected(
    machine: SimulatedMachine, kind: int, name: str, code: int, text: str
) -> None:
    result = describe(machine, kind, name)
    assert result.error_code == code
    assert (result.error_message or "").startswith(text)
    assert (result.resource_type, result.resource_name, result.configs) == (kind, name, [])


# IncrementalAlterConfigs


def alter(
    machine: SimulatedMachine,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    name: str = "t",
    version: int = 1,
    **more: Any,
) -> Answer:
    resource = incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], **more)
    (response,) = machine.ask(request, version).responses
    return response.error_code, response.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_set_changes_one_setting_and_keeps_the_others(
    machine: SimulatedMachine, version: int
) -> None:
    assert alter(machine, ("flush.ms", SET, "7"), version=version) == (0, None)
    assert values(machine, "flush.ms", "retention.ms") == ["7", "5000"]
    machine.kill()
    machine.boot()
    assert values(machine, "flush.ms", "retention.ms") == ["7", "5000"]


def test_deleted_setting_gets_its_default(machine: SimulatedMachine) -> None:
    assert alter(machine, ("retention.ms", DELETE, None)) == (0, None)
    assert values(machine, "retention.ms") == ["360000000"]


def test_append_and_subtract_change_list_settings(machine: SimulatedMachine) -> None:
    assert alter(machine, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert values(machine, "cleanup.policy") == ["delete,compact"]
    assert alter(machine, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert values(machine, "cleanup.policy") == ["delete,compact"]
    assert alter(machine, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert values(machine, "cleanup.policy") == ["compact"]


def test_list_does_not_grow_beyond_a_string_of_the_protocol(machine: SimulatedMachine) -> None:
    name = "leader.replication.throttled.replicas"
    first, second = (",".join(f"{n}:{broker}" for n in range(3_000)) for broker in (1, 2))
    assert alter(machine, (name, APPEND, first))[0] == 0
    code, text = alter(machine, (name, APPEND, second))
    assert (code, text) == (40, f"The value of {name} would have 39779 bytes, more than 32767")
    assert values(machine, name) == [first]


def test_change_reaches_the_open_log(machine: SimulatedMachine) -> None:
    alter(machine, ("max.message.bytes", SET, "12345"))
    assert machine.broker.replicas.by_partition["t", 0].log.config.max_message_bytes == 12345


def test_validation_changes_nothing(machine: SimulatedMachine) -> None:
    assert alter(machine, ("retention.ms", SET, "1"), validate_only=True) == (0, None)
    assert alter(machine, ("retention.ms", SET, "x"), validate_only=True)[0] == 40
    machine.schedule.run_for(1_000)
    assert values(machine, "retention.ms") == ["5000"]


@pytest.mark.parametrize(
    ("change", "where", "code", "text"),
    [
        (("retention.ms", SET, "abc"), {}, 40, "Invalid value abc for configuration retention.ms"),
        (("foo", SET, "1"), {}, 40, "Unknown topic config name: foo"),
        (("retention.ms", APPEND, "1"), {}, 40, "Can't APPEND to key retention.ms because its"),
        (("foo", SUBTRACT, "1"), {}, 40, "Can't SUBTRACT to key foo because its type is not LIST."),
        (("retention.ms", SET, None), {}, 42, "Null value not supported for : retention.ms"),
        (("retention.ms", 9, "1"), {}, 42, "Unknown operations type 9"),
        (("retention.ms", SET, "1"), {"name": "nope"}, 3, "The topic 'nope' does not exist."),
        (("retention.ms", SET, "x"), {"name": "nope"}, 40, "Invalid value x for configuration"),
        (("retention.ms", SET, "1"), {"name": ""}, 42, "Default topic resources are not allowed."),
        (("retention.ms", SET, "1"), {"name": "a b"}, 17, "Topic name is invalid"),
        (("retention.ms", SET, "1"), {"kind": 3}, 42, "Unknown resource type 3"),
        (
            ("num.partitions", SET, "1"),
            {"kind": BROKER, "name": "1"},
            42,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            ("log.segment.bytes", SET, "1"),
            {"kind": BROKER, "name": "9"},
            42,
            "Unexpected broker id, expected 1, but received 9",
        ),
    ],
)
def test_invalid_change_is_rejected(
    machine: SimulatedMachine,
    change: tuple[str, int, str | None],
    where: dict[str, Any],
    code: int,
    text: str,
) -> None:
    answer = alter(machine, change, **where)
    assert answer[0] == code
    assert (answer[1] or "").startswith(text)
    assert values(machine, "retention.ms") == ["5000"]


def test_resource_with_one_invalid_change_stays_as_it_was(machine: SimulatedMachine) -> None:
    assert alter(machine, ("flush.ms", SET, "7"), ("segment.bytes", SET, "1"))[0] == 40
    assert values(machine, "flush.ms") == ["9223372036854775807"]


def test_duplicate_keys_and_resources_are_rejected(machine: SimulatedMachine) -> None:
    text = "Error due to duplicate config keys"
    assert alter(machine, ("flush.ms", SET, "1"), ("flush.ms", SET, "2")) == (42, text)
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource, resource])
    text = "Each resource must appear at most once."
    responses = machine.ask(request).responses
    assert [(r.error_code, r.error_message) for r in responses] == [(42, text)] * 2


def test_each_resource_succeeds_or_fails_on_its_own(machine: SimulatedMachine) -> None:
    resources = [
        incremental.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[incremental.AlterableConfig(name="flush.ms", value="7")],
        )
        for name in ("nope", "t")
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    responses = machine.ask(request).responses
    assert [(r.resource_name, r.error_code) for r in responses] == [("nope", 3), ("t", 0)]


# AlterConfigs


def replace(machine: SimulatedMachine, *configs: tuple[str, str | None], **where: Any) -> Answer:
    resource = whole.AlterConfigsResource(
        resource_type=where.get("kind", TOPIC),
        resource_name=where.get("name", "t"),
        configs=[whole.AlterableConfig(name=key, value=value) for key, value in configs],
    )
    request = whole.AlterConfigsRequest(resources=[resource], validate_only=False)
    (response,) = machine.ask(request, where.get("version", 2)).responses
    return response.error_code, response.error_message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_all_settings(machine: SimulatedMachine, version: int) -> None:
    assert replace(machine, ("flush.ms", "7"), version=version) == (0, None)
    assert values(machine, "flush.ms", "retention.ms") == ["7", "360000000"]


@pytest.mark.parametrize(
    ("config", "where", "code"),
    [
        (("retention.ms", "x"), {}, 40),
        (("retention.ms", None), {}, 42),
        (("retention.ms", "1"), {"name": "nope"}, 3),
        (("node.id", "1"), {"kind": BROKER, "name": "1"}, 42),
    ],
)
def test_alter_configs_rejects_invalid_changes(
    machine: SimulatedMachine, config: tuple[str, str | None], where: dict[str, Any], code: int
) -> None:
    assert replace(machine, config, **where)[0] == code
    assert values(machine, "retention.ms") == ["5000"]
