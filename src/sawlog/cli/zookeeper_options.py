"""The settings `zookeeper.*`, with Kafka's names, checked and put together."""

from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.server.coordination import ZooKeeperOptions
from sawlog.server.zookeeper_address import ZooKeeperAddress, parse_zookeeper

_CONNECT = "zookeeper.connect"
_CREDENTIALS = "zookeeper.digest.credentials"


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
        config["zookeeper.connection.timeout.ms"] or session_timeout_ms,
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
