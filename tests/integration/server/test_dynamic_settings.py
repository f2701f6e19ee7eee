"""Settings that are changed while a broker process runs, and kept over its restart."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from sawlog.client import (
    Admin,
    Change,
    ConfigSource,
    DeliveryFailed,
    NewTopic,
    Operation,
    Producer,
    Resource,
    ResourceType,
)
from support.server.broker_process import NODE_ID, running_sawlog

BROKER = Resource(ResourceType.BROKER, str(NODE_ID))
ALL_BROKERS = Resource(ResourceType.BROKER, "")

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 0000")
"""A frame: length, API key, version, correlation id, empty client id."""


def alter(admin: Admin, resource: Resource, configs: Mapping[str, str | None]) -> None:
    changes = [
        Change(name, Operation.DELETE if value is None else Operation.SET, value)
        for name, value in configs.items()
    ]
    assert admin.alter_configs({resource: changes}) == {}


def is_accepted(host: str, port: int) -> bool:
    """Whether the broker keeps a new connection: ApiVersions is answered on it."""
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(API_VERSIONS)
        try:
            return bool(connection.recv(4))
        except ConnectionError:
            return False


def test_the_limit_of_connections_changes_while_the_broker_runs(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server, Admin(server.bootstrap) as admin:
        assert is_accepted(server.host, server.port)
        alter(admin, BROKER, {"max.connections.per.ip": "1"})
        assert not is_accepted(server.host, server.port)
        alter(admin, BROKER, {"max.connections.per.ip": None})
        assert is_accepted(server.host, server.port)
        alter(admin, ALL_BROKERS, {"max.connections": "1"})
        assert not is_accepted(server.host, server.port)


def test_the_size_of_messages_is_limited_before_and_after_a_restart(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server:
        with Admin(server.bootstrap) as admin:
            assert admin.create_topics([NewTopic("t", 1)]) == {}
            alter(admin, ALL_BROKERS, {"message.max.bytes": "1000"})
        for _ in range(2):
            with Producer(server.bootstrap) as producer:
                producer.send("t", bytes(500))
            with (
                pytest.raises(DeliveryFailed, match="the topic's limit is 1000"),
                Producer(server.bootstrap) as producer,
            ):
                producer.send("t", bytes(2_000))
            server.kill()
            server.start()
        with Admin(server.bootstrap) as admin:
            (entry,) = admin.describe_configs([BROKER], names=["message.max.bytes"])[BROKER]
            assert (entry.value, entry.source) == ("1000", ConfigSource.ALL_BROKERS)


def test_a_setting_without_effect_is_reported_in_the_log(tmp_path: Path) -> None:
    with running_sawlog(tmp_path) as server, Admin(server.bootstrap) as admin:
        alter(admin, BROKER, {"num.io.threads": "9"})
        server.process.wait_for_line("setting has no effect.*num.io.threads")


def test_the_level_of_a_logger_decides_what_the_broker_writes(tmp_path: Path) -> None:
    loggers = Resource(ResourceType.BROKER_LOGGER, str(NODE_ID))
    with running_sawlog(tmp_path) as server, Admin(server.bootstrap) as admin:
        alter(admin, loggers, {"sawlog.core.config_dynamic": "FATAL"})
        alter(admin, BROKER, {"num.io.threads": "9"})
        alter(admin, loggers, {"sawlog.core.config_dynamic": None})
        alter(admin, BROKER, {"num.replica.fetchers": "2"})
        server.process.wait_for_line("setting has no effect.*num.replica.fetchers")
        assert "num.io.threads" not in server.process.output
        entries = {e.name: e.value for e in admin.describe_configs([loggers])[loggers]}
        assert entries["root"] == "INFO"
