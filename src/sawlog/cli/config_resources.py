"""The resources of `sawlog configs`: what has settings, under which name, and which are known."""

from dataclasses import dataclass
from typing import Any

import click

from sawlog.cli.option_types import TEXT
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.configs import ConfigEntry, Resource
from sawlog.core.config_api import ConfigSource, ResourceType
from sawlog.core.config_topic import HIDDEN_SETTINGS
from sawlog.core.config_warnings import near_names
from sawlog.core.errors import ErrorCode, KafkaError

ALL_BROKERS = "all"
"""The name that stands for the settings of all brokers."""

_TYPES = {
    "topic": (ResourceType.TOPIC, ConfigSource.TOPIC),
    "broker": (ResourceType.BROKER, ConfigSource.BROKER),
    "group": (ResourceType.GROUP, ConfigSource.GROUP),
    "broker-logger": (ResourceType.BROKER_LOGGER, ConfigSource.BROKER_LOGGER),
}
_LISTENER_PREFIX = "listener.name."


class ConfigResourceType(click.ParamType[str]):
    """`topic`, `broker`, `group` or `broker-logger`; plurals are accepted, as kafka-configs has
    them.
    """

    name = "type"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        kind = TEXT.convert(value, param, ctx).removesuffix("s")
        if kind not in _TYPES:
            self.fail(f"{value!r} is not one of {', '.join(_TYPES)}", param, ctx)
        return kind


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource with settings; `own_source` is the source of values that were set on it."""

    kind: str
    name: str
    resource: Resource
    own_source: ConfigSource

    def __str__(self) -> str:
        if self.resource == Resource(ResourceType.BROKER, ""):
            return "all brokers"
        return f"{self.kind} {self.name}"


def find_resource(admin: Admin, kind: str, name: str) -> ConfigResource:
    """Return the resource; KafkaError if the broker does not exist, before a request to it waits.

    A topic is checked by the first request about it. A group need not exist.
    """
    type_, own_source = _TYPES[kind]
    if kind == "broker" and name == ALL_BROKERS:
        return ConfigResource(kind, name, Resource(type_, ""), ConfigSource.ALL_BROKERS)
    if kind in ("broker", "broker-logger"):
        ids = [str(node.id) for node in admin.describe_cluster().nodes]
        if name not in ids:
            expected = f"a live broker's id ({', '.join(ids)})"
            if kind == "broker":
                expected += f", or {ALL_BROKERS!r} for the settings of all brokers"
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; expected {expected}"
            )
    return ConfigResource(kind, name, Resource(type_, name), own_source)


def describe(
    admin: Admin, where: ConfigResource, *, synonyms: bool = False, documentation: bool = False
) -> dict[str, ConfigEntry]:
    """Return the settings of the resource by name; of all brokers those that are set for them."""
    found = admin.describe_configs([where.resource], synonyms=synonyms, documentation=documentation)
    return {entry.name: entry for entry in found[where.resource]}


def known_settings(
    admin: Admin, where: ConfigResource, entries: dict[str, ConfigEntry]
) -> dict[str, ConfigEntry]:
    """Return the settings that the resource can have: those of one broker for all brokers."""
    if where.own_source is not ConfigSource.ALL_BROKERS:
        return entries
    first = admin.describe_cluster().nodes[0]
    return describe(admin, find_resource(admin, "broker", str(first.id))) | entries


def check_known(
    where: ConfigResource, keys: list[str], known: dict[str, ConfigEntry], *, to_change: bool
) -> None:
    """Raise KafkaError for keys that are unknown, or read-only and to be changed.

    Brokers ignore unknown keys in most requests, and a broker stores settings of any name.
    """
    for key in keys:
        entry = known.get(key)
        if entry is None:
            may_be_hidden = key in HIDDEN_SETTINGS or (
                where.kind == "broker" and key.startswith(_LISTENER_PREFIX)
            )
            if not (to_change and may_be_hidden):
                what = "logger" if where.kind == "broker-logger" else f"{where.kind} setting"
                text = f"there is no {what} {key!r}{near_names(key, known)}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, text)
        elif to_change and entry.is_read_only:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{key!r} cannot be changed while the broker runs; set it in the broker's"
                " configuration file and restart the broker",
            )
