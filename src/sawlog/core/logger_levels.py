"""The levels of this process's loggers, under Kafka's names for them (KIP-412).

Levels are not stored: after a restart they are those of the command line again.
"""

import logging

ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """Return the level in force of each logger: the root, packages and modules, by name."""
    names = (ROOT, *logging.root.manager.loggerDict)
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in sorted(names)}


def has_logger(name: str) -> bool:
    return name == ROOT or name in logging.root.manager.loggerDict


def set_logger_level(name: str, level: str | None) -> None:
    """Set the level of an existing logger; None: it takes the level of its parent again."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(number: int) -> str:
    return next(name for name, level in reversed(LEVELS.items()) if number >= level or level == 5)
