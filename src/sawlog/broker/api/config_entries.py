"""Settings as DescribeConfigs returns them: value, source, synonyms, type.

The source is the origin of the effective value; the synonyms are all its possible origins, the one
with the highest precedence first (KIP-226). As in Kafka, a topic setting has no synonyms if the
first of several broker settings behind it has no value.
"""

from collections.abc import Mapping
from functools import lru_cache

from sawlog.core.config import (
    ALL_BROKER_SETTINGS,
    INTERNAL_SETTINGS,
    BrokerConfig,
    TopicConfig,
)
from sawlog.core.config_topic import BROKER_SYNONYMS, HIDDEN_SETTINGS, TOPIC_SETTINGS
from sawlog.core.config_values import ConfigType, Setting, Value, format_value, parse_value
from sawlog.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

TOPIC_CONFIG = 1
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
CLUSTER_WIDE = "min.insync.replicas"
"""Kafka 4.3 keeps this one for the whole cluster, because elections depend on it (KIP-966)."""
_BROKER_CHAINS = {
    synonyms[0].name: tuple(synonym.name for synonym in synonyms)
    for synonyms in BROKER_SYNONYMS.values()
}


Entries = tuple[DescribeConfigsResourceResult, ...]
"""Cached and shared by responses; not to be changed."""


class _ConfigKey:
    """A broker configuration as a cache key, compared by identity; it never changes."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ConfigKey) and other.config is self.config

    def __hash__(self) -> int:
        return id(self.config)


def describe_topic(
    broker: BrokerConfig,
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
        synonyms = _topic_synonyms(broker, name, value if name in given else None)
        entries.append(
            _entry(
                TOPIC_SETTINGS[name],
                value,
                synonyms,
                with_synonyms=with_synonyms,
                with_documentation=with_documentation,
                read_only=False,
            )
        )
    return tuple(entries)


def creation_sources(broker: BrokerConfig, given: Mapping[str, str]) -> dict[str, int]:
    """Return the source of each setting as CreateTopics has it, where any broker setting behind a
    topic setting counts."""
    sources: dict[str, int] = {}
    for name in TOPIC_SETTINGS:
        chain = BROKER_SYNONYMS.get(name, ())
        if name in given:
            sources[name] = TOPIC_CONFIG
        elif name == CLUSTER_WIDE:
            sources[name] = DYNAMIC_DEFAULT_BROKER_CONFIG
        elif any(synonym.name in broker.given for synonym in chain):
            sources[name] = STATIC_BROKER_CONFIG
        else:
            sources[name] = DEFAULT_CONFIG
    return sources


def describe_cluster_wide(broker: BrokerConfig) -> Entries:
    """Return the cluster-wide settings."""
    setting = ALL_BROKER_SETTINGS[CLUSTER_WIDE]
    return (
        DescribeConfigsResourceResult(
            name=CLUSTER_WIDE,
            value=_text(broker[CLUSTER_WIDE]),
            config_source=DYNAMIC_DEFAULT_BROKER_CONFIG,
            config_type=int(setting.type),
            documentation=None,
        ),
    )


def describe_broker(
    broker: BrokerConfig, *, with_synonyms: bool, with_documentation: bool
) -> Entries:
    """Return all settings of this broker, all read-only; internal ones only if they are set.

    `flush.policy` is Sawlog's own; all others are Kafka's.
    """
    return _describe_broker(_ConfigKey(broker), with_synonyms, with_documentation)


@lru_cache(maxsize=4)
def _describe_broker(key: _ConfigKey, with_synonyms: bool, with_documentation: bool) -> Entries:
    broker = key.config
    return tuple(
        _entry(
            setting,
            _text(broker[name]),
            _broker_synonyms(broker, name, _BROKER_CHAINS.get(name, (name,))),
            with_synonyms=with_synonyms,
            with_documentation=with_documentation,
            read_only=True,
        )
        for name, setting in sorted(ALL_BROKER_SETTINGS.items())
        if name not in INTERNAL_SETTINGS or name in broker.given
    )


def _entry(
    setting: Setting,
    value: str | None,
    synonyms: list[DescribeConfigsSynonym],
    *,
    with_synonyms: bool,
    with_documentation: bool,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    is_secret = setting.type is ConfigType.PASSWORD
    if is_secret:
        for synonym in synonyms:
            synonym.value = None
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if is_secret else value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else DEFAULT_CONFIG,
        is_sensitive=is_secret,
        synonyms=synonyms if with_synonyms else [],
        config_type=int(setting.type),
        documentation=_documentation(setting) if with_documentation else None,
    )


def _documentation(setting: Setting) -> str:
    return setting.doc or "Accepted without effect."


def _topic_synonyms(
    broker: BrokerConfig, name: str, own: str | None
) -> list[DescribeConfigsSynonym]:
    synonyms: list[DescribeConfigsSynonym] = []
    if own is not None:
        synonyms.append(DescribeConfigsSynonym(name=name, value=own, source=TOPIC_CONFIG))
    chain = tuple(synonym.name for synonym in BROKER_SYNONYMS.get(name, ()))
    if chain:
        synonyms += _broker_synonyms(broker, chain[0], chain)
    return synonyms


def _broker_synonyms(
    broker: BrokerConfig, name: str, chain: tuple[str, ...]
) -> list[DescribeConfigsSynonym]:
    """Return the values that were set, then the defaults, from the first with this name."""
    found: list[DescribeConfigsSynonym] = []
    if name == CLUSTER_WIDE:
        value = _text(broker[name])
        source = DYNAMIC_DEFAULT_BROKER_CONFIG
        found.append(DescribeConfigsSynonym(name=name, value=value, source=source))
    found += [
        DescribeConfigsSynonym(name=n, value=broker.given[n], source=STATIC_BROKER_CONFIG)
        for n in chain
        if n in broker.given
    ]
    for n in chain:
        default = _default(n)
        if default is not None:
            found.append(DescribeConfigsSynonym(name=n, value=default, source=DEFAULT_CONFIG))
    while found and found[0].name != name:
        found.pop(0)
    return found


def _default(name: str) -> str | None:
    setting = ALL_BROKER_SETTINGS[name]
    return _text(parse_value(setting, setting.default))


def _text(value: Value) -> str | None:
    return None if value is None else format_value(value)
