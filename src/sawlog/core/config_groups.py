"""The settings of groups (KIP-848): names, types, and the broker settings behind them.

A group setting takes its default from the broker setting `group.<name>`, and its value must lie
within `group.<protocol>.min.<rest>` and `group.<protocol>.max.<rest>`, where the broker has these.
Those of share and streams groups have no effect: Sawlog has no such groups.
"""

import re
from collections.abc import Iterator, Mapping

from sawlog.core.config_values import ConfigError, Value, parse_value, read_table

GROUP_SETTINGS = read_table("""
consumer.assignment.interval.ms INT 1000 >=0 :: The minimum time between two target assignments.
consumer.heartbeat.interval.ms INT 5000 >=1 :: The heartbeat interval of the members.
consumer.session.timeout.ms INT 45000 >=1 :: A member without a heartbeat for this long is removed.
share.assignment.interval.ms INT 1000 >=0
share.auto.offset.reset STRING latest
share.delivery.count.limit INT 5 >=2
share.heartbeat.interval.ms INT 5000 >=1
share.isolation.level STRING read_uncommitted oneof:read_committed,read_uncommitted
share.partition.max.record.locks INT 2000 >=100
share.record.lock.duration.ms INT 30000 >=1000
share.renew.acknowledge.enable BOOLEAN true
share.session.timeout.ms INT 45000 >=1
streams.assignment.interval.ms INT 1000 >=0
streams.heartbeat.interval.ms INT 5000 >=1
streams.initial.rebalance.delay.ms INT 3000 >=0
streams.num.standby.replicas INT 0 >=0
streams.session.timeout.ms INT 45000 >=1
""")
Values = Mapping[str, Value]
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
_PROTOCOLS = ("consumer", "share", "streams")


def broker_synonym(name: str) -> str:
    """Return the broker setting that a group setting takes its default from; it may not exist."""
    return f"group.{name}"


def check_group_configs(broker: Values, given: Mapping[str, str]) -> None:
    """Raise ConfigError with Kafka's message if these cannot be the settings of a group."""
    for name, text in given.items():
        if name not in GROUP_SETTINGS:
            message = f"Unknown group config name: {name}"
            raise ConfigError(name, text, "a known setting", message)
    values = {name: _default(broker, name) for name in GROUP_SETTINGS}
    values |= {name: parse_group_value(name, text) for name, text in given.items()}
    _check_limits(broker, {name: values[name] for name in given}, prefix="")
    for protocol in _PROTOCOLS:
        interval = f"{protocol}.heartbeat.interval.ms"
        timeout = f"{protocol}.session.timeout.ms"
        if interval in given or timeout in given:
            _check_session(values, interval, timeout)


def check_broker_limits(broker: Values) -> None:
    """Raise ConfigError if a broker's defaults for groups are outside its own limits."""
    names = [name for name in GROUP_SETTINGS if broker_synonym(name) in broker]
    _check_limits(broker, {name: broker[broker_synonym(name)] for name in names}, prefix="group.")


def limited(broker: Values, name: str, value: int) -> int:
    """Return a group's value within the limits of the broker, which may have changed since."""
    for limit, is_least in _limits(broker, name):
        bound = broker[limit]
        if isinstance(bound, int):
            value = max(value, bound) if is_least else min(value, bound)
    return value


def parse_group_value(name: str, text: str) -> Value:
    value = parse_value(GROUP_SETTINGS[name], text)
    if name != "share.auto.offset.reset" or value in ("earliest", "latest"):
        return value
    if not _DURATION.fullmatch(text):
        expected = "expected 'earliest', 'latest' or 'by_duration:<PnDTnHnMn.nS>'"
        raise ConfigError(name, text, expected)
    return value


def _default(broker: Values, name: str) -> Value:
    setting = GROUP_SETTINGS[name]
    return broker.get(broker_synonym(name), parse_value(setting, setting.default))


def _limits(broker: Values, name: str) -> Iterator[tuple[str, bool]]:
    """Yield the broker settings that limit a group setting, and whether each is a minimum."""
    protocol, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")
    for kind in ("min", "max"):
        limit = f"group.{protocol}.{kind}.{rest}"
        if limit in broker:
            yield limit, kind == "min"


def _check_limits(broker: Values, values: Values, prefix: str) -> None:
    for name, value in values.items():
        for limit, is_least in _limits(broker, name):
            bound = broker[limit]
            if not isinstance(value, int) or not isinstance(bound, int):
                continue
            if value < bound if is_least else value > bound:
                relation = "greater" if is_least else "less"
                expected = f"must be {relation} than or equal to {limit}"
                message = f"{prefix}{name} {expected}: {value} was given, and the limit is {bound}"
                raise ConfigError(f"{prefix}{name}", str(value), expected, message)


def _check_session(values: Values, interval: str, timeout: str) -> None:
    beat, session = values[interval], values[timeout]
    if isinstance(beat, int) and isinstance(session, int) and session <= beat:
        expected = f"must be greater than {interval}"
        message = f"{timeout} {expected}: {session} was given, and the interval is {beat}"
        raise ConfigError(timeout, str(session), expected, message)
