"""Errors and warnings about configuration keys.

Unknown keys are rejected with a suggestion, security settings because Sawlog cannot honour them
yet. Settings with less effect than in Kafka are accepted with a notice.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sawlog.core.config_values import ConfigError, Setting, Value, parse_value

_SECURITY_NAMES = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "delegation.token.secret.key",
        "principal.builder.class",
        "security.inter.broker.protocol",
        "security.providers",
        "super.users",
    }
)
_SECURITY_PREFIXES = ("ssl.", "sasl.")
_LISTENER_PREFIX = "listener.name."
_REMOVED_PREFIXES = ("zookeeper.", "password.encoder.")
_REMOVED_NAMES = frozenset(
    {
        "advertised.host.name",
        "advertised.port",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "delegation.token.master.key",
        "host.name",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "port",
        "reserved.broker.max.id",
    }
)
_INSTEAD = {
    "log.dir": "the data directory is set with --data",
    "log.dirs": "the data directory is set with --data",
    "metadata.log.dir": "metadata is stored in the data directory, set with --data",
}


class Notice(NamedTuple):
    """A warning about a setting that is accepted."""

    setting: str
    message: str


def unknown_setting(name: str, value: str, known: Iterable[str]) -> ConfigError:
    if name in _REMOVED_NAMES or name.startswith(_REMOVED_PREFIXES):
        reason = (
            "Kafka removed this setting in 4.0 with ZooKeeper mode, and Sawlog does not have it:"
            " remove it"
        )
    else:
        reason = f"unknown setting{near_names(name, known)}"
    return ConfigError(name, value, "a known setting", f"{name}={value}: {reason}")


def near_names(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with similar names, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=3, cutoff=0.75)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def reject_security_setting(name: str, text: str, setting: Setting | None) -> None:
    """Reject security settings, except with their default values. The error does not show the
    value, which may be a password.
    """
    if name.startswith(_LISTENER_PREFIX):  # listener.name.<listener>.[<mechanism>.]<setting>
        is_security = any(f".{prefix}" in name for prefix in _SECURITY_PREFIXES)
    else:
        is_security = name in _SECURITY_NAMES or name.startswith(_SECURITY_PREFIXES)
    if not is_security:
        return
    if setting is not None and parse_value(setting, text) == parse_value(setting, setting.default):
        return
    message = (
        f"{name}: TLS, authentication and authorization are not supported yet; every client that"
        " can reach the broker has full access. Remove the setting to run the broker like that"
    )
    raise ConfigError(name, None, "no security setting", message)


def notices(
    values: Mapping[str, Value], given: Iterable[str], ineffective: set[str]
) -> list[Notice]:
    """Return the notices for the settings in `given`; those in `ineffective` have no effect."""
    found: list[Notice] = []
    for name in given:
        if name in ineffective:
            instead = _INSTEAD.get(name)
            message = "setting has no effect" + (f": {instead}" if instead else "")
            found.append(Notice(name, message))
    for name, rejected in (
        ("default.replication.factor", "topics without a replication factor of their own"),
        ("min.insync.replicas", "records with acks=all"),
    ):
        wanted = values[name]
        if isinstance(wanted, int) and wanted > 1 and not values["zookeeper.connect"]:
            message = f"without ZooKeeper a cluster has one broker: {rejected} will be rejected"
            found.append(Notice(name, message))
    for name, off in (("log.cleaner.enable", False), ("log.cleaner.threads", 0)):
        if values[name] == off:
            message = "no topic is compacted, not even __consumer_offsets: their logs only grow"
            found.append(Notice(name, message))
    return found
