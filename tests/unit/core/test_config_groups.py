"""Settings of groups: types, and the limits of the broker."""

import pytest

from sawlog.core.config import BrokerConfig
from sawlog.core.config_groups import GROUP_SETTINGS, check_group_configs, limited
from sawlog.core.config_values import ConfigError


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("consumer.session.timeout.ms", "44999", "greater than or equal to group.consumer.min"),
        ("consumer.session.timeout.ms", "60001", "less than or equal to group.consumer.max"),
        ("consumer.session.timeout.ms", "x", "Not a number of type INT"),
        ("consumer.heartbeat.interval.ms", "0", "Value must be at least 1"),
        ("streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"),
        ("share.auto.offset.reset", "by_duration:P", "by_duration"),
        ("share.auto.offset.reset", "by_duration:P1DT", "by_duration"),
        ("foo", "1", "Unknown group config name: foo"),
    ],
)
def test_invalid_group_settings_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_group_configs(BrokerConfig(), {name: value})
    assert message in str(refused.value)


def test_a_session_outlasts_a_heartbeat_interval() -> None:
    broker = BrokerConfig({"group.consumer.min.session.timeout.ms": "1000"})
    with pytest.raises(ConfigError, match="must be greater than consumer"):
        check_group_configs(broker, {"consumer.session.timeout.ms": "5000"})
    check_group_configs(broker, {"consumer.session.timeout.ms": "5001"})


def test_defaults_of_groups_are_those_of_the_broker() -> None:
    broker = BrokerConfig()
    for name, setting in GROUP_SETTINGS.items():
        if f"group.{name}" in broker:
            assert str(broker[f"group.{name}"]) == setting.default


def test_a_value_outside_limits_that_have_changed_is_limited() -> None:
    broker = BrokerConfig()
    name = "consumer.heartbeat.interval.ms"
    assert [limited(broker, name, ms) for ms in (1, 6_000, 99_999)] == [5_000, 6_000, 15_000]


def test_a_broker_default_outside_its_own_limits_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.session\.timeout\.ms must be greater"):
        BrokerConfig({"group.consumer.session.timeout.ms": "1000"})
