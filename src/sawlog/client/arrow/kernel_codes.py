"""What the compiled loop and those who call it say to each other in numbers. Imports no numba."""

from enum import IntEnum, IntFlag


class ColumnFlag(IntFlag):
    """What to do with the records of a batch."""

    KEYS = 1
    VALUES = 2
    HEADERS = 4
    APPEND_TIME = 8  # of the batch, in place of the records' own timestamps


class Total(IntEnum):
    """What a batch of columns holds so far, and where each number stands."""

    ROWS = 0
    KEYS = 1  # bytes
    VALUES = 2  # bytes
    HEADERS = 3
    NAMES = 4  # bytes
    CONTENTS = 5  # bytes


class OutOfRoom(IntEnum):
    """Nothing is wrong, but there has to be more room for these: grow it, and call again."""

    ROWS = 1
    KEYS = 2
    VALUES = 3
    HEADERS = 4
    NAMES = 5
    CONTENTS = 6


class Corrupt(IntEnum):
    """What is wrong with a batch."""

    LENGTHS = -1
    OFFSETS = -2
    REST = -3


DONE = 0
REASONS = {
    Corrupt.LENGTHS: "a record's lengths or counts do not fit into it",
    Corrupt.OFFSETS: "the records' offsets do not ascend within those of the batch",
    Corrupt.REST: "there are bytes after the last record",
}
