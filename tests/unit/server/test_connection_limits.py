"""What a broker's clients may have follows from its settings and from what the system grants."""

import resource
from collections.abc import Iterator

import pytest

from sawlog.core.config import BrokerConfig
from sawlog.server.connection_limits import connection_descriptors, file_descriptors, limits_from


@pytest.fixture
def granted() -> Iterator[int]:
    """The process may have so many descriptors, for the time of a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield 256
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 1 << 20])
def test_connections_leave_descriptors_for_files_and_for_what_else_there_is(
    descriptors: int,
) -> None:
    files = file_descriptors(descriptors)
    assert files >= max(64, descriptors // 4)
    assert connection_descriptors(descriptors) + files <= descriptors - 48
    assert connection_descriptors(descriptors) >= descriptors // 2


def test_a_process_with_hardly_any_descriptors_takes_one_connection_all_the_same() -> None:
    assert connection_descriptors(64) == 1


def test_the_system_bounds_connections_where_the_settings_do_not(granted: int) -> None:
    assert limits_from(BrokerConfig({})).connections == connection_descriptors(granted)


def test_a_lower_setting_holds(granted: int) -> None:
    assert limits_from(BrokerConfig({"max.connections": "5"})).connections == 5
