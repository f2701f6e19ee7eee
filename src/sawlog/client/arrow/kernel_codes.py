"""Numbers that the compiled kernel and its callers exchange. Does not import numba."""

from enum import IntEnum, IntFlag


class ColumnFlag(IntFlag):
    """Columns to fill, and where the timestamps come from."""

    KEYS = 1
    VALUES = 2
    HEADERS = 4
    APPEND_TIME = 8  # use the batch's timestamp instead of the records'


class Total(IntEnum):
    """Indexes into the totals of the columns."""

    ROWS = 0
    KEYS = 1  # bytes
    VALUES = 2  # bytes
    HEADERS = 3
    NAMES = 4  # bytes
    CONTENTS = 5  # bytes


class OutOfRoom(IntEnum):
    """The buffer that has to grow before the kernel is called again."""

    ROWS = 1
    KEYS = 2
    VALUES = 3
    HEADERS = 4
    NAMES = 5
    CONTENTS = 6


class Corrupt(IntEnum):
    """Reasons for which a batch is corrupt."""

    LENGTHS = -1
    OFFSETS = -2
    REST = -3


DONE = 0
REASONS = {
    Corrupt.LENGTHS: "a record's lengths or counts do not fit into it",
    Corrupt.OFFSETS: "the records' offsets do not ascend within those of the batch",
    Corrupt.REST: "there are bytes after the last record",
}
