"""Connection limits follow from the settings and from the system's own limits."""

import resource
from collections.abc import Iterator

import pytest

from sawlog.core.config import BrokerConfig
from sawlog.server.connection_limits import (
    ConnectionLimits,
    ConnectionQuota,
    connection_descriptors,
    file_descriptors,
    limits_from,
)


@pytest.fixture
def granted() -> Iterator[int]:
    """Limit the process to 256 descriptors during a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield 256
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 1 << 20])
def test_connections_leave_descriptors_for_log_files_and_the_process(
    descriptors: int,
) -> None:
    files = file_descriptors(descriptors)
    assert files >= max(64, descriptors // 4)
    assert connection_descriptors(descriptors) + files <= descriptors - 48
    assert connection_descriptors(descriptors) >= descriptors // 2


def test_at_least_one_connection_is_accepted_with_few_descriptors() -> None:
    assert connection_descriptors(64) == 1


def test_descriptors_bound_connections_without_max_connections(granted: int) -> None:
    assert limits_from(BrokerConfig({})).connections == connection_descriptors(granted)


def test_max_connections_below_the_descriptor_bound_applies(granted: int) -> None:
    assert limits_from(BrokerConfig({"max.connections": "5"})).connections == 5


def test_the_total_number_of_connections_is_bounded() -> None:
    quota = ConnectionQuota(ConnectionLimits(connections=2))
    assert quota.acquire("10.0.0.1") is None
    assert quota.acquire("10.0.0.2") is None
    assert quota.acquire("10.0.0.3") is not None
    quota.release("10.0.0.1")
    assert quota.acquire("10.0.0.3") is None


def test_other_limits_apply_to_new_connections_only() -> None:
    quota = ConnectionQuota(ConnectionLimits(connections=3))
    assert quota.acquire("10.0.0.1") is None
    assert quota.acquire("10.0.0.2") is None
    quota.set_limits(ConnectionLimits(connections=1))
    assert quota.total == 2
    assert quota.acquire("10.0.0.3") is not None
    quota.set_limits(ConnectionLimits(connections=3))
    assert quota.acquire("10.0.0.3") is None


def test_connections_of_one_address_are_bounded_on_their_own() -> None:
    quota = ConnectionQuota(ConnectionLimits(connections_per_ip=1))
    assert quota.acquire("10.0.0.1") is None
    assert quota.acquire("10.0.0.1") is not None
    assert quota.acquire("10.0.0.2") is None
    assert (quota.total, quota.rejected) == (2, 1)
