"""The levels of loggers under Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from sawlog.core.event_logger import EventLogger
from sawlog.core.logger_levels import LEVELS, ROOT, has_logger, logger_levels, set_logger_level

NAME = "sawlog.test_logger_levels.module"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Restore the levels that a test changes."""
    EventLogger(NAME)
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)
    for name in (NAME, NAME.rpartition(".")[0]):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_can_be_set_and_is_described(level: str) -> None:
    set_logger_level(NAME, level)
    assert logger_levels()[NAME] == level
    assert logging.getLogger(NAME).isEnabledFor(LEVELS[level])
    assert not logging.getLogger(NAME).isEnabledFor(LEVELS[level] - 1)


def test_a_logger_without_a_level_has_that_of_its_package_and_of_the_root() -> None:
    set_logger_level(ROOT, "ERROR")
    assert logger_levels()[NAME] == "ERROR"
    set_logger_level(NAME.rpartition(".")[0], "DEBUG")
    assert logger_levels()[NAME] == "DEBUG"
    set_logger_level(NAME, "FATAL")
    set_logger_level(NAME, None)
    assert logger_levels()[NAME] == "DEBUG"


def test_unknown_loggers_are_not_created() -> None:
    assert has_logger(ROOT)
    assert has_logger(NAME)
    assert not has_logger("sawlog.no.such.logger")
    assert "sawlog.no.such.logger" not in logger_levels()
