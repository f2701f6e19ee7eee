"""Broker and topic settings: accepted and rejected values, and the source of defaults."""

import pytest

from sawlog.core.config import (
    ALL_BROKER_SETTINGS,
    BrokerConfig,
    TopicConfig,
    check_topic_configs,
    parse_properties,
)
from sawlog.core.config_accepted import ACCEPTED_SETTINGS
from sawlog.core.config_broker import BROKER_SETTINGS
from sawlog.core.config_topic import BROKER_SYNONYMS, TOPIC_SETTINGS
from sawlog.core.config_values import ConfigError, format_value, parse_value
from sawlog.core.config_warnings import Notice, single_broker_notices

HOUR_MS = 3_600_000


def topic(broker: dict[str, str] | None = None, **given: str) -> TopicConfig:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return TopicConfig(BrokerConfig(broker), named)


# Brokers


def test_defaults_are_kafkas_except_for_the_flush_policy() -> None:
    config = BrokerConfig()
    assert config["log.segment.bytes"] == 1 << 30
    assert config["auto.create.topics.enable"] is True
    assert config["log.cleanup.policy"] == ("delete",)
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.flush.interval.ms"] is None
    assert config["flush.policy"] == "commit"
    assert config.notices == ()


def test_given_values_are_parsed() -> None:
    config = BrokerConfig({"log.segment.bytes": " 2000000 ", "delete.topic.enable": "False"})
    assert config["log.segment.bytes"] == 2_000_000
    assert config["delete.topic.enable"] is False
    assert config.given == {"log.segment.bytes": " 2000000 ", "delete.topic.enable": "False"}


def test_a_setting_without_effect_is_accepted_with_a_notice() -> None:
    config = BrokerConfig({"num.io.threads": "3", "listener.name.internal.max.connections": "7"})
    assert config["num.io.threads"] == 3
    assert config.notices == (
        Notice("num.io.threads", "setting has no effect"),
        Notice("listener.name.internal.max.connections", "setting has no effect"),
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("log.dirs", "a,b", "--data"),
        ("log.cleaner.enable", "false", "no topic is compacted"),
        ("log.cleaner.threads", "0", "no topic is compacted"),
    ],
)
def test_a_setting_with_less_effect_than_in_kafka_is_accepted_with_a_notice(
    key: str, value: str, message: str
) -> None:
    (notice,) = BrokerConfig({key: value}).notices
    assert notice.setting == key
    assert message in notice.message


@pytest.mark.parametrize("key", ["default.replication.factor", "min.insync.replicas"])
def test_replication_is_noticed_only_if_there_is_one_broker(key: str) -> None:
    config = BrokerConfig({key: "2"})
    assert config.notices == ()
    (notice,) = single_broker_notices(config)
    assert notice.setting == key
    assert "without --zookeeper there is one broker" in notice.message
    assert single_broker_notices(BrokerConfig()) == []


def test_an_unknown_replica_selector_is_refused_with_the_known_ones() -> None:
    known = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert BrokerConfig({"replica.selector.class": known})["replica.selector.class"] == known
    with pytest.raises(ConfigError, match=known):
        BrokerConfig({"replica.selector.class": "com.example.Nearest"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("security.inter.broker.protocol", "SSL"),
        ("ssl.keystore.location", "keystore.jks"),
        ("ssl.client.auth", "required"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.jaas.config", "secret"),
        ("listener.name.internal.ssl.key.password", "secret"),
        ("listener.name.internal.plain.sasl.jaas.config", "secret"),
    ],
)
def test_a_security_setting_is_rejected_without_showing_its_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="not supported yet") as raised:
        BrokerConfig({key: value})
    assert raised.value.key == key
    assert value not in str(raised.value).replace(key, "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", ""),
        ("ssl.client.auth", "none"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
    ],
)
def test_a_security_setting_with_its_default_value_is_accepted(key: str, value: str) -> None:
    assert len(BrokerConfig({key: value}).notices) == 1


def test_an_unknown_setting_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"log\.segmnt\.bytes=1: unknown setting") as raised:
        BrokerConfig({"log.segmnt.bytes": "1"})
    assert (raised.value.key, raised.value.value) == ("log.segmnt.bytes", "1")
    assert "did you mean log.segment.bytes" in str(raised.value)


@pytest.mark.parametrize("key", ["zookeeper.set.acl", "inter.broker.protocol.version", "port"])
def test_a_setting_that_kafka_4_removed_is_rejected(key: str) -> None:
    with pytest.raises(ConfigError, match="Kafka removed this setting"):
        BrokerConfig({key: "1"})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("log.segment.bytes", "1", "Value must be at least 1048576"),
        ("log.segment.bytes", "99999999999", "Not a number of type INT"),
        ("log.segment.bytes", "1e6", "Not a number of type INT"),
        ("log.segment.bytes", "", "Not a number of type INT"),
        ("log.retention.ms", "0", "Value must be at least 1"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "much", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "NaN", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "0_1", "Not a number of type DOUBLE"),
        ("log.cleaner.io.buffer.load.factor", "-0.1", "Value must be at least 0"),
        ("delete.topic.enable", "yes", "Expected value to be either true or false"),
        ("flush.policy", "never", "String must be one of: commit, os"),
        ("log.cleanup.policy", "delete,shred", "String must be one of: compact, delete"),
        ("num.io.threads", "0", "Value must be at least 1"),
        ("offsets.topic.replication.factor", "40000", "Not a number of type SHORT"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ],
)
def test_an_invalid_value_is_rejected_with_the_expected_one(
    key: str, value: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({key: value})
    assert (raised.value.key, raised.value.expected) == (key, expected)
    assert key in str(raised.value)


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes"])
def test_minus_one_means_no_limit(name: str) -> None:
    assert BrokerConfig({name: "-1"})[name] == -1


def test_every_default_is_valid() -> None:
    for setting in (*ALL_BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()):
        parse_value(setting, setting.default)


def test_a_setting_is_in_one_table_and_described_if_it_has_an_effect() -> None:
    assert BROKER_SETTINGS.keys().isdisjoint(ACCEPTED_SETTINGS)
    assert all(setting.doc for setting in BROKER_SETTINGS.values())
    assert not any(setting.doc for setting in ACCEPTED_SETTINGS.values())
    assert len(ALL_BROKER_SETTINGS) > 350


# Topics


def test_a_topic_has_the_brokers_defaults() -> None:
    config = topic({"log.segment.bytes": "2000000", "min.insync.replicas": "2"})
    assert config["segment.bytes"] == 2_000_000
    assert config["min.insync.replicas"] == 2
    assert config["max.message.bytes"] == 1_048_588


def test_a_topics_own_setting_overrides_the_brokers() -> None:
    assert topic({"log.retention.ms": "7"}, retention_ms="9")["retention.ms"] == 9


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_first_synonym_with_a_value_is_the_default(
    given: dict[str, str], expected: int
) -> None:
    assert topic(given)["retention.ms"] == expected


def test_the_internal_segment_size_overrides_the_public_one() -> None:
    assert topic().segment_bytes == 1 << 30
    assert topic(internal_segment_bytes="1000").segment_bytes == 1000


def test_every_synonym_is_a_known_setting() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        assert name in TOPIC_SETTINGS
        for synonym in synonyms:
            assert synonym.name in ALL_BROKER_SETTINGS


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        (
            {"retention.ms": "abc"},
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more",
        ),
        ({"cleanup.policy": "delete,,compact"}, "Configuration 'cleanup.policy' values must not"),
        (
            {"leader.replication.throttled.replicas": "foo"},
            "Invalid value [foo] for configuration leader.replication.throttled.replicas: leader",
        ),
        (
            {"follower.replication.throttled.replicas": f"{'9' * 5_000}:1"},
            f"Invalid value [{'9' * 5_000}:1] for configuration follower.replication.throttled",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
    ],
)
def test_topic_configs_are_rejected_with_kafkas_messages(
    configs: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_topic_configs(BrokerConfig(), configs)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact, delete"},
        {"leader.replication.throttled.replicas": "*"},
        {"leader.replication.throttled.replicas": "0:1,1:2"},
        {"min.cleanable.dirty.ratio": "0.5f"},
        {"min.cleanable.dirty.ratio": ".5e0"},
        {"segment.bytes": "+1048577"},
        {"preallocate": " TRUE "},
    ],
)
def test_values_that_kafka_accepts_are_accepted(configs: dict[str, str]) -> None:
    check_topic_configs(BrokerConfig(), configs)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (("a", "b"), "a,b"),
        ((), ""),
        (7, "7"),
    ],
)
def test_values_are_formatted_as_in_java(value: object, text: str) -> None:
    assert format_value(value) == text  # type: ignore[arg-type]


# Files


def test_a_properties_file_is_parsed_as_in_java() -> None:
    text = """
        # a comment
        ! another
        node.id=1
        listeners = PLAINTEXT://:9092
        log.dirs : /var/lib
        log.cleanup.policy=compact,\\
            delete
        a\\ key=with\\tescapes\\u0041
        path=c:\\\\dir
        empty=
        alone
        last=1
        last=2
    """
    found = parse_properties(text)
    assert {key: value for _, key, value in found} == {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/var/lib",
        "log.cleanup.policy": "compact,delete",
        "a key": "with\tescapesA",
        "path": "c:\\dir",
        "empty": "",
        "alone": "",
        "last": "2",
    }
    lines = {key: line for line, key, _ in found}
    assert (lines["node.id"], lines["log.cleanup.policy"], lines["a key"]) == (4, 7, 9)


def test_a_file_may_end_with_a_continued_line() -> None:
    assert parse_properties("a=1\nb=2,\\") == [(1, "a", "1"), (2, "b", "2,")]


@pytest.mark.parametrize(
    ("text", "value"), [("a=\\ud83d\\ude00", "\U0001f600"), ("a=\\ud800", "\ufffd")]
)
def test_unicode_escapes_are_utf_16_code_units(text: str, value: str) -> None:
    assert parse_properties(text) == [(1, "a", value)]


@pytest.mark.parametrize(("size", "threads"), [("1048576", "1"), ("4000000", "4")])
def test_a_log_cleaner_without_memory_for_keys_is_refused(size: str, threads: str) -> None:
    given = {"log.cleaner.dedupe.buffer.size": size, "log.cleaner.threads": threads}
    with pytest.raises(ConfigError, match="at least 1MB per cleaner thread"):
        BrokerConfig(given)


@pytest.mark.parametrize("value", ["-1", "NaN"])
@pytest.mark.parametrize(
    "key", ["log.cleaner.io.max.bytes.per.second", "log.cleaner.io.buffer.load.factor"]
)
def test_a_log_cleaner_that_could_not_make_progress_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({key: value})
    assert refused.value.key == key
