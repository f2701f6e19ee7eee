"""Kafka's `listeners` and `advertised.listeners`: which of them is the one address served here.

The first that is PLAINTEXT and not a controller's is taken; others of that kind are told of in a
notice. One that would be encrypted or authenticated is refused: nobody should believe it is.
"""

import re
from collections.abc import Callable

from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.core.config_warnings import Notice
from sawlog.server.address import Address

_ENTRY = re.compile(r"([\w.-]+)://(.*)", re.ASCII)
_EXPECTED = "PLAINTEXT://HOST:PORT"


def read_listener(
    config: BrokerConfig, key: str, parse: Callable[[str], Address]
) -> tuple[Address | None, list[Notice]]:
    """The address under `key`, None where it is not set; ConfigError for what cannot be."""
    if key not in config.given:
        return None, []
    taken: Address | None = None
    notices: list[Notice] = []
    for entry in config[key]:
        name, address = _read_entry(key, entry, parse)
        if name in _controller_names(config):
            notices.append(Notice(key, f"{entry} is not opened: there is no controller listener"))
            continue
        _check_plain(config, key, name, entry)
        if taken is None:
            taken = address
        else:
            notices.append(Notice(key, f"{entry} is not opened: a broker has one address here"))
    if taken is None:
        raise _refusal(key, config.given[key], f"expected {_EXPECTED}")
    return taken, notices


def _read_entry(key: str, entry: str, parse: Callable[[str], Address]) -> tuple[str, Address]:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise _refusal(key, entry, f"expected {_EXPECTED}")
    try:
        return match[1].upper(), parse(match[2])
    except ValueError as error:
        raise _refusal(key, entry, str(error)) from None


def _controller_names(config: BrokerConfig) -> set[str]:
    names = config["controller.listener.names"] or ("CONTROLLER",)
    return {name.upper() for name in names}


def _check_plain(config: BrokerConfig, key: str, name: str, entry: str) -> None:
    pairs = (pair.partition(":") for pair in config["listener.security.protocol.map"].split(","))
    protocols = {listener.strip().upper(): protocol.strip() for listener, _, protocol in pairs}
    protocol = protocols.get(name)
    if protocol is None:
        reason = f"listener.security.protocol.map has no {name}; expected {_EXPECTED}"
        raise _refusal(key, entry, reason)
    if protocol.upper() != "PLAINTEXT":
        reason = f"there is no {protocol.upper()} here yet, only PLAINTEXT"
        raise _refusal(key, entry, reason)


def _refusal(key: str, value: str, reason: str) -> ConfigError:
    return ConfigError(key, value, reason, f"{key}={value}: {reason}")
