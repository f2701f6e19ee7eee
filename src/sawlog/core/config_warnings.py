"""What somebody who sets something must be told: a name that is none, and what is meant instead;
settings that would protect a broker, which are refused because nothing here can honour them; and
settings that do less here than they say, which are taken with a notice.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sawlog.core.config_values import ConfigError, Setting, Value, parse_value

_PROTECTING_NAMES = frozenset(
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
_PROTECTING_PREFIXES = ("ssl.", "sasl.")
_LISTENER_PREFIX = "listener.name."
_OLD_PREFIXES = ("zookeeper.", "password.encoder.")
_OLD_NAMES = frozenset(
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
    "log.dir": "the data directory is the one of --data",
    "log.dirs": "the data directory is the one of --data",
    "metadata.log.dir": "metadata is kept in the data directory, --data",
}


class Notice(NamedTuple):
    """Something to say about a setting that is taken nevertheless."""

    setting: str
    words: str


def unknown_setting(name: str, value: str, known: Iterable[str]) -> ConfigError:
    if name in _OLD_NAMES or name.startswith(_OLD_PREFIXES):
        reason = (
            "a setting of Kafka before 4.0, with ZooKeeper; this broker keeps its metadata itself:"
            " leave it out"
        )
    else:
        reason = f"there is no setting of this name{near_names(name, known)}"
    return ConfigError(name, value, "a known setting", f"{name}={value}: {reason}")


def near_names(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that offers what may have been meant; empty where nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=3, cutoff=0.75)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_unprotected(name: str, text: str, setting: Setting | None) -> None:
    """Refuses what asks for a protection; a value that asks for none is no harm. The value is not
    shown: it may be a password.
    """
    if name.startswith(_LISTENER_PREFIX):  # listener.name.<listener>.[<mechanism>.]<setting>
        is_protecting = any(f".{prefix}" in name for prefix in _PROTECTING_PREFIXES)
    else:
        is_protecting = name in _PROTECTING_NAMES or name.startswith(_PROTECTING_PREFIXES)
    if not is_protecting:
        return
    if setting is not None and parse_value(setting, text) == parse_value(setting, setting.default):
        return
    words = (
        f"{name}: there is no TLS, authentication or authorization here yet: the broker would be"
        " open to everybody who reaches it. Leave the setting out to run it so"
    )
    raise ConfigError(name, None, "no protection asked for", words)


def notices(values: Mapping[str, Value], given: Iterable[str], idle: set[str]) -> list[Notice]:
    """`idle`: the names among those given that have no effect."""
    found: list[Notice] = []
    for name in given:
        if name in idle:
            instead = _INSTEAD.get(name)
            words = "setting has no effect here" + (f": {instead}" if instead else "")
            found.append(Notice(name, words))
    for name, refused in (
        ("default.replication.factor", "topics that do not say how many replicas they want"),
        ("min.insync.replicas", "records with acks=all"),
    ):
        wanted = values[name]
        if isinstance(wanted, int) and wanted > 1:
            words = f"a cluster has one broker for now: {refused} will be refused"
            found.append(Notice(name, words))
    policy = values["log.cleanup.policy"]
    if isinstance(policy, tuple) and "compact" in policy:
        found.append(Notice("log.cleanup.policy", "logs are not compacted yet: all records stay"))
    return found
