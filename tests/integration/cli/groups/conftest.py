"""A group for each test of `sawlog groups`."""

import pytest

from support.cli.command_line import Sawlog
from support.kafka.shared_brokers import unique


@pytest.fixture
def group() -> str:
    return unique("group-")


@pytest.fixture
def idle(sawlog: Sawlog, topic: str, group: str) -> str:
    """A group without members, with committed offset 2 in partitions 0 and 1."""
    scope = f"{topic}:0,1"
    sawlog("groups", "reset", group, "--topic", scope, "--to-offset", "2", "--execute")
    return group
