"""The settings in force follow the dynamic ones, and tell their subscribers."""

import logging

import pytest

from sawlog.core.config import ALL_BROKER_SETTINGS, BrokerConfig
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.config_dynamic_names import DYNAMIC_SETTINGS, PER_BROKER_SETTINGS
from sawlog.core.config_values import ConfigError


def dynamic(**static: str) -> DynamicBrokerConfig:
    given = {name.replace("_", "."): value for name, value in static.items()}
    return DynamicBrokerConfig(BrokerConfig(given))


def test_a_brokers_own_value_takes_precedence_over_that_of_all_and_the_static_one() -> None:
    config = dynamic(message_max_bytes="1")
    assert config["message.max.bytes"] == 1
    config.reconfigure({"message.max.bytes": "2"}, {})
    assert config["message.max.bytes"] == 2
    config.reconfigure({"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    assert config["message.max.bytes"] == 3
    config.reconfigure({}, {})
    assert config["message.max.bytes"] == 1
    assert config.given == {"message.max.bytes": "1"}


def test_subscribers_are_told_of_changes_of_their_settings_only() -> None:
    config = dynamic()
    calls: list[object] = []
    config.subscribe(("max.connections",), lambda: calls.append(config["max.connections"]))
    config.reconfigure({"message.max.bytes": "2"}, {})
    config.reconfigure({"max.connections": "7"}, {})
    config.reconfigure({"max.connections": "7"}, {"max.connections": "7"})
    config.reconfigure({}, {"max.connections": "7"})
    config.reconfigure({}, {})
    assert calls == [7, 2_147_483_647]


def test_an_invalid_stored_setting_is_ignored_and_the_others_apply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = dynamic()
    stored = {
        "message.max.bytes": "many",
        "node.id": "5",
        "listeners": "PLAINTEXT://:1",
        "log.retention.ms": "5000",
    }
    config.reconfigure(stored, {})
    assert (config["message.max.bytes"], config["log.retention.ms"]) == (1_048_588, 5_000)
    assert config["node.id"] is None
    ignored = [r for r in caplog.records if r.getMessage() == "dynamic setting ignored"]
    assert len(ignored) == 3


def test_a_stored_listener_of_an_earlier_start_is_ignored() -> None:
    config = dynamic(listeners="PLAINTEXT://:9092")
    config.check({"listeners": "PLAINTEXT://:9092"}, per_broker=True)
    config.reconfigure({}, {"listeners": "PLAINTEXT://:9093"})
    assert config["listeners"] == ("PLAINTEXT://:9092",)
    config.check({"message.max.bytes": "5"}, per_broker=True)


def test_a_setting_that_sawlog_does_not_act_on_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = dynamic()
    with caplog.at_level(logging.WARNING):
        config.reconfigure({"num.io.threads": "9", "log.retention.ms": "5"}, {"a.secret": "x"})
    reported = {r.__dict__["fields"]["setting"]: r.getMessage() for r in caplog.records}
    assert reported == {
        "num.io.threads": "setting has no effect",
        "a.secret": "setting has no effect",
    }
    assert "'x'" not in caplog.text


def test_dynamic_settings_are_settings_of_the_broker() -> None:
    assert ALL_BROKER_SETTINGS.keys() >= DYNAMIC_SETTINGS
    assert "log.retention.ms" in DYNAMIC_SETTINGS - PER_BROKER_SETTINGS
    assert "num.partitions" not in DYNAMIC_SETTINGS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num.partitions", "5", "Cannot update these configs dynamically: [num.partitions]"),
        ("flush.policy", "os", "Cannot update these configs dynamically: [flush.policy]"),
        ("log.segment.bytes", "1", "Value must be at least 1048576"),
        ("log.segment.bytes", "x", "Not a number of type INT"),
        ("num.io.threads", "17", "should not be greater than double the current value 8"),
        ("num.io.threads", "3", "should be at least half the current value 8"),
        ("log.cleaner.threads", "0", "should be at least 1"),
        ("log.cleaner.io.max.bytes.per.second", "0", "Value must be at least 1"),
        ("log.cleaner.io.max.bytes.per.second", "-1", "Value must be at least 1"),
        ("log.cleaner.io.max.bytes.per.second", "NaN", "Not a number of type DOUBLE"),
        ("log.cleaner.io.buffer.load.factor", "Infinity", "Value must be no more than 1"),
        ("log.cleaner.io.buffer.load.factor", "nan", "Not a number of type DOUBLE"),
        ("listeners", "PLAINTEXT://:1", "it cannot be changed while the broker runs"),
        ("cordoned.log.dirs", "/x", "must be present in log.dirs"),
        ("log.local.retention.ms", "604800001", "at most that of log.retention.ms"),
        ("log.local.retention.bytes", "5", ""),
        ("group.consumer.assignment.interval.ms", "15001", "less than or equal to group.consumer"),
        ("sasl.jaas.config", "x", "not supported yet"),
        ("listener.name.plaintext.ssl.client.auth", "required", "not supported yet"),
        ("listener.name.plaintext.max.connections", "-1", "Value must be at least 0"),
    ],
)
def test_invalid_settings_of_a_broker_are_refused(name: str, value: str, message: str) -> None:
    config = dynamic()
    if not message:
        config.check({name: value}, per_broker=True)
        return
    with pytest.raises(ConfigError) as refused:
        config.check({name: value}, per_broker=True)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["listener.security.protocol.map", "listener.name.a.backlog"])
def test_settings_of_one_broker_are_refused_for_all(name: str) -> None:
    value = "PLAINTEXT:PLAINTEXT"
    dynamic().check({name: value}, per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        dynamic().check({name: value}, per_broker=False)


def test_settings_are_checked_together_with_those_of_the_other_level() -> None:
    config = dynamic()
    config.reconfigure({"log.retention.bytes": "100"}, {})
    with pytest.raises(ConfigError, match=r"log\.local\.retention\.bytes"):
        config.check({"log.local.retention.bytes": "101"}, per_broker=True)
    config.reconfigure({}, {"log.local.retention.bytes": "101"})
    with pytest.raises(ConfigError, match=r"log\.local\.retention\.bytes"):
        config.check({"log.retention.bytes": "100"}, per_broker=False)
