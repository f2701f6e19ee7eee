"""Brokers that all tests of one process share, so that a JVM starts only once."""

import contextlib
import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support.kafka.kafka_broker import KafkaServer, running_kafka
from support.server.broker_process import SawlogServer, running_sawlog

Server = SawlogServer | KafkaServer

EITHER_BROKER: list[Any] = ["sawlog", pytest.param("kafka", marks=pytest.mark.long)]
"""Fixture parameters: tests run against Sawlog and, in the long tier, against Apache Kafka."""

QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}
"""Settings that make groups rebalance without delay."""

START: dict[str, Callable[..., AbstractContextManager[Server]]] = {
    "sawlog": running_sawlog,
    "kafka": running_kafka,
}
_numbers = itertools.count()


class SharedBrokers:
    """One running broker of each kind and configuration, started on first use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[tuple[str, tuple[tuple[str, str], ...]], Server] = {}
        self._stack = contextlib.ExitStack()

    def get(self, kind: str, settings: Mapping[str, str] | None = None) -> Server:
        key = kind, tuple(sorted((settings or {}).items()))
        if key not in self._running:
            path = self._directory / str(len(self._running))
            self._running[key] = self._stack.enter_context(START[kind](path, settings))
        return self._running[key]

    def stop(self) -> None:
        self._stack.close()


def unique(prefix: str) -> str:
    """A name that no other test uses on this broker."""
    return f"{prefix}{next(_numbers)}-{os.urandom(3).hex()}"
