"""Kafka's settings `listeners` and `advertised.listeners`, reduced to one address.

The first PLAINTEXT listener that is not a controller's is used; a notice names each other one. A
listener with encryption or authentication is refused: ignoring it would leave the broker open.
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
    """Return the address of the setting `key`, None if it is not set, and notices about others.

    Raises ConfigError for a listener that cannot be served.
    """
    if key not in config.given:
        return None, []
    chosen: Address | None = None
    notices: list[Notice] = []
    for entry in config[key]:
        name, address = _read_entry(key, entry, parse)
        if name in _controller_names(config):
            notices.append(Notice(key, f"{entry} is not opened: there is no controller listener"))
            continue
        _check_plaintext(config, key, name, entry)
        if chosen is None:
            chosen = address
        else:
            notices.append(Notice(key, f"{entry} is not opened: a broker has one listener"))
    if chosen is None:
        raise _refusal(key, config.given[key], f"expected {_EXPECTED}")
    return chosen, notices


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


def _check_plaintext(config: BrokerConfig, key: str, name: str, entry: str) -> None:
    pairs = (pair.partition(":") for pair in config["listener.security.protocol.map"].split(","))
    protocols = {listener.strip().upper(): protocol.strip() for listener, _, protocol in pairs}
    protocol = protocols.get(name)
    if protocol is None:
        reason = f"listener.security.protocol.map has no {name}; expected {_EXPECTED}"
        raise _refusal(key, entry, reason)
    if protocol.upper() != "PLAINTEXT":
        reason = f"{protocol.upper()} is not supported yet, only PLAINTEXT"
        raise _refusal(key, entry, reason)


def _refusal(key: str, value: str, reason: str) -> ConfigError:
    return ConfigError(key, value, reason, f"{key}={value}: {reason}")
