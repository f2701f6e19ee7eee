"""Settings as DescribeConfigs returns them: value, source, synonyms, type.

The source is the origin of the effective value; the synonyms are all its possible origins, the one
with the highest precedence first (KIP-226). As in Kafka, a topic setting has no synonyms if the
first of several broker settings behind it has no value.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from sawlog.core.config import ALL_BROKER_SETTINGS, INTERNAL_SETTINGS, TopicConfig
from sawlog.core.config_api import ConfigSource
from sawlog.core.config_client_metrics import CLIENT_METRICS_SETTINGS
from sawlog.core.config_dynamic import DynamicBrokerConfig, is_dynamic, setting_of
from sawlog.core.config_groups import GROUP_SETTINGS, broker_synonym
from sawlog.core.config_topic import BROKER_SYNONYMS, HIDDEN_SETTINGS, TOPIC_SETTINGS
from sawlog.core.config_values import ConfigType, Setting, Value, format_value, parse_value
from sawlog.core.logger_levels import logger_levels
from sawlog.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

_BROKER_CHAINS = {
    synonyms[0].name: tuple(synonym.name for synonym in synonyms)
    for synonyms in BROKER_SYNONYMS.values()
}
Entries = tuple[DescribeConfigsResourceResult, ...]
"""Cached and shared by responses; not to be changed."""


class _ConfigKey:
    """A version of a broker's settings as a cache key; the settings are compared by identity."""

    __slots__ = ("config", "version")

    def __init__(self, config: DynamicBrokerConfig) -> None:
        self.config = config
        self.version = config.version

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ConfigKey)
            and other.config is self.config
            and other.version == self.version
        )

    def __hash__(self) -> int:
        return hash((id(self.config), self.version))


def describe_topic(
    broker: DynamicBrokerConfig,
    given: Mapping[str, str],
    *,
    with_synonyms: bool,
    with_documentation: bool = False,
) -> Entries:
    """Return all settings of a topic with these overrides, in the order of names."""
    return _describe_topic(
        _ConfigKey(broker), tuple(given.items()), with_synonyms, with_documentation
    )


@lru_cache(maxsize=64)  # most topics have the same overrides
def _describe_topic(
    key: _ConfigKey,
    own: tuple[tuple[str, str], ...],
    with_synonyms: bool,
    with_documentation: bool,
) -> Entries:
    broker, given = key.config, dict(own)
    config = TopicConfig(broker, given)
    entries: list[DescribeConfigsResourceResult] = []
    for name in sorted(TOPIC_SETTINGS):
        if name in HIDDEN_SETTINGS and name not in given:
            continue
        value = _text(config[name])
        synonyms = _own_synonym(name, value if name in given else None, ConfigSource.TOPIC)
        chain = tuple(synonym.name for synonym in BROKER_SYNONYMS.get(name, ()))
        if chain:
            synonyms += _broker_synonyms(broker, chain[0], chain)
        entries.append(_entry(TOPIC_SETTINGS[name], value, synonyms))
    return tuple(_trim(entries, with_synonyms, with_documentation))


def creation_sources(broker: DynamicBrokerConfig, given: Mapping[str, str]) -> dict[str, int]:
    """Return the source of each setting as CreateTopics has it, where any broker setting behind a
    topic setting counts."""
    origins = (
        (broker.of_broker, ConfigSource.BROKER),
        (broker.of_brokers, ConfigSource.ALL_BROKERS),
        (broker.given, ConfigSource.BROKER_FILE),
    )
    sources: dict[str, int] = {}
    for name in TOPIC_SETTINGS:
        chain = [synonym.name for synonym in BROKER_SYNONYMS.get(name, ())]
        found = (source for texts, source in origins if any(each in texts for each in chain))
        sources[name] = ConfigSource.TOPIC if name in given else next(found, ConfigSource.DEFAULT)
    return sources


def describe_all_brokers(
    broker: DynamicBrokerConfig, *, with_synonyms: bool, with_documentation: bool
) -> Entries:
    """Return the dynamic settings of all brokers."""
    entries: list[DescribeConfigsResourceResult] = []
    for name, text in sorted(broker.of_brokers.items()):
        setting = setting_of(name)
        value = text if setting is None else _text(parse_value(setting, text))
        synonyms = _own_synonym(name, text, ConfigSource.ALL_BROKERS)
        entries.append(_broker_entry(name, value, synonyms))
    return tuple(_trim(entries, with_synonyms, with_documentation))


def describe_broker(
    broker: DynamicBrokerConfig, *, with_synonyms: bool, with_documentation: bool
) -> Entries:
    """Return all settings of this broker; internal ones only if they are set.

    `flush.policy` is Sawlog's own; all others are Kafka's.
    """
    return _describe_broker(_ConfigKey(broker), with_synonyms, with_documentation)


@lru_cache(maxsize=4)
def _describe_broker(key: _ConfigKey, with_synonyms: bool, with_documentation: bool) -> Entries:
    broker = key.config
    dynamic = {**broker.of_brokers, **broker.of_broker}
    entries = [
        _broker_entry(
            name,
            _text(broker[name]),
            _broker_synonyms(broker, name, _BROKER_CHAINS.get(name, (name,))),
        )
        for name in ALL_BROKER_SETTINGS
        if name not in INTERNAL_SETTINGS or name in broker.given or name in dynamic
    ]
    for name in dynamic.keys() - ALL_BROKER_SETTINGS.keys():
        base = setting_of(name)
        chain = (name,) if base is None else tuple(dict.fromkeys((name, base.name)))
        entries.append(_broker_entry(name, dynamic[name], _broker_synonyms(broker, name, chain)))
    entries.sort(key=lambda entry: entry.name)
    return tuple(_trim(entries, with_synonyms, with_documentation))


def describe_group(
    broker: DynamicBrokerConfig,
    given: Mapping[str, str],
    *,
    with_synonyms: bool,
    with_documentation: bool,
) -> Entries:
    """Return all settings of a group with these overrides."""
    return _describe_group(
        _ConfigKey(broker), tuple(given.items()), with_synonyms, with_documentation
    )


@lru_cache(maxsize=64)  # most groups have none; a request may name very many groups
def _describe_group(
    key: _ConfigKey,
    own: tuple[tuple[str, str], ...],
    with_synonyms: bool,
    with_documentation: bool,
) -> Entries:
    broker, given = key.config, dict(own)
    entries: list[DescribeConfigsResourceResult] = []
    for name, setting in sorted(GROUP_SETTINGS.items()):
        synonyms = _own_synonym(name, given.get(name), ConfigSource.GROUP)
        broker_name = broker_synonym(name)
        if broker_name in ALL_BROKER_SETTINGS:
            synonyms += _broker_synonyms(broker, broker_name, (broker_name,))
        else:
            synonyms += _own_synonym(name, setting.default, ConfigSource.DEFAULT)
        entries.append(_entry(setting, synonyms[0].value, synonyms))
    return tuple(_trim(entries, with_synonyms, with_documentation))


def describe_client_metrics(
    given: Mapping[str, str], *, with_synonyms: bool, with_documentation: bool
) -> Entries:
    """Return all settings of a client metrics subscription with these overrides."""
    entries = [
        _entry(
            setting,
            given.get(name, setting.default),
            _own_synonym(name, given.get(name), ConfigSource.CLIENT_METRICS),
        )
        for name, setting in sorted(CLIENT_METRICS_SETTINGS.items())
    ]
    return tuple(_trim(entries, with_synonyms, with_documentation))


def describe_loggers() -> Entries:
    """Return the level of each of this process's loggers."""
    return tuple(
        DescribeConfigsResourceResult(
            name=name, value=level, config_source=ConfigSource.BROKER_LOGGER, documentation=""
        )
        for name, level in logger_levels().items()
    )


# Entries


def _entry(
    setting: Setting, value: str | None, synonyms: list[DescribeConfigsSynonym]
) -> DescribeConfigsResourceResult:
    is_secret = setting.type is ConfigType.PASSWORD
    if is_secret:
        for synonym in synonyms:
            synonym.value = None
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if is_secret else value,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=is_secret,
        synonyms=synonyms,
        config_type=int(setting.type),
        documentation=setting.doc or "Accepted without effect.",
    )


def _broker_entry(
    name: str, value: str | None, synonyms: list[DescribeConfigsSynonym]
) -> DescribeConfigsResourceResult:
    """Return the entry of a broker setting; the value of an unknown one may be a secret."""
    known = setting_of(name) or Setting(name, ConfigType.PASSWORD, None, "", "")
    entry = _entry(known._replace(name=name), value, synonyms)
    entry.read_only = not is_dynamic(name)
    if setting_of(name) is None:
        entry.config_type = int(ConfigType.UNKNOWN)
    return entry


def _trim(
    entries: Iterable[DescribeConfigsResourceResult], with_synonyms: bool, with_documentation: bool
) -> Iterable[DescribeConfigsResourceResult]:
    """Remove the parts of the entries that were not requested."""
    for entry in entries:
        if not with_synonyms:
            entry.synonyms = []
        if not with_documentation:
            entry.documentation = None
        yield entry


# Synonyms


def _own_synonym(name: str, text: str | None, source: ConfigSource) -> list[DescribeConfigsSynonym]:
    if text is None:
        return []
    return [DescribeConfigsSynonym(name=name, value=text, source=source)]


def _broker_synonyms(
    broker: DynamicBrokerConfig, name: str, chain: tuple[str, ...]
) -> list[DescribeConfigsSynonym]:
    """Return the values that were set, then the defaults, from the first with this name."""
    found = [
        DescribeConfigsSynonym(name=each, value=texts[each], source=source)
        for texts, source in (
            (broker.of_broker, ConfigSource.BROKER),
            (broker.of_brokers, ConfigSource.ALL_BROKERS),
            (broker.given, ConfigSource.BROKER_FILE),
        )
        for each in chain
        if each in texts
    ]
    for each in chain:
        default = _default(each)
        if default is not None:
            found += _own_synonym(each, default, ConfigSource.DEFAULT)
    while found and found[0].name != name:
        found.pop(0)
    return found


def _default(name: str) -> str | None:
    setting = ALL_BROKER_SETTINGS.get(name)
    return None if setting is None else _text(parse_value(setting, setting.default))


def _text(value: Value) -> str | None:
    return None if value is None else format_value(value)
