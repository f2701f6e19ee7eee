"""The options `--zookeeper` and `--connect-timeout`, and the settings `zookeeper.*` with Kafka's
names, checked and put together."""

from collections.abc import Callable
from typing import Any

import click

from sawlog.cli.option_types import SECONDS, TEXT
from sawlog.cli.setting_options import Command, Setting
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.server.coordination import ZooKeeperOptions
from sawlog.server.zookeeper_address import ZooKeeperAddress, parse_zookeeper

_CONNECT = "zookeeper.connect"
_CREDENTIALS = "zookeeper.digest.credentials"
_CONNECTION_TIMEOUT = "zookeeper.connection.timeout.ms"


class ZooKeeperEnsemble(click.ParamType[ZooKeeperAddress]):
    name = "ensemble"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ZooKeeperAddress:
        try:
            return parse_zookeeper(TEXT.convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def zookeeper_option(text: str, *, is_required: bool = False) -> Callable[[Command], Command]:
    return click.option(
        "--zookeeper",
        type=ZooKeeperEnsemble(),
        required=is_required,
        metavar="HOST:PORT[,HOST:PORT...][/CHROOT]",
        help=text,
    )


connect_timeout_option = click.option(
    "--connect-timeout",
    "connect_timeout_s",
    type=SECONDS,
    metavar="SECONDS",
    help=f"How long the start waits for ZooKeeper. Default: the setting {_CONNECTION_TIMEOUT}, else"
    " zookeeper.session.timeout.ms.",
)


def connect_timeout_setting(seconds: float | None) -> dict[str, Setting]:
    """Return the setting that `--connect-timeout` stands for; none without the option."""
    if seconds is None:
        return {}
    return {_CONNECTION_TIMEOUT: Setting(str(round(seconds * 1_000)), "--connect-timeout")}


def read_zookeeper(
    config: BrokerConfig, option: ZooKeeperAddress | None
) -> ZooKeeperOptions | None:
    """Return how to connect to ZooKeeper; None without `option` and the setting zookeeper.connect.

    Raises ConfigError for an invalid address or credentials.
    """
    address = option or _setting(config)
    if address is None:
        return None
    credentials: str | None = config[_CREDENTIALS]
    if credentials is not None and not all(credentials.partition(":")):
        message = f"{_CREDENTIALS}: expected user:password"
        raise ConfigError(_CREDENTIALS, None, "user:password", message)
    session_timeout_ms: int = config["zookeeper.session.timeout.ms"]
    return ZooKeeperOptions(
        address,
        session_timeout_ms,
        config[_CONNECTION_TIMEOUT] or session_timeout_ms,
        credentials,
    )


def _setting(config: BrokerConfig) -> ZooKeeperAddress | None:
    text: str | None = config[_CONNECT]
    if not text:
        return None
    try:
        return parse_zookeeper(text)
    except ValueError as error:
        raise ConfigError(_CONNECT, text, "HOST:PORT", f"{_CONNECT}={error}") from None
