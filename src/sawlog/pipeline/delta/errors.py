"""Errors of Delta tables; their messages say what to do."""

from sawlog.core.ids import TopicPartition


class TableError(Exception):
    """Base class of errors about a table."""


class TableNotFound(TableError):
    """The path has no table, or the table has no such version."""


class TableExists(TableError):
    """Another writer created the table first."""


class UnsupportedProtocol(TableError):
    """The table needs Delta features that are not supported."""


class CorruptLog(TableError):
    """The log cannot be read: an entry is missing or malformed."""


class UnsupportedStorage(TableError):
    """The storage cannot create a file atomically, or its configuration is wrong."""


class StoreUnavailable(OSError):
    """An object store does not answer, or its response is an error; the outcome may be unknown."""


class SchemaMismatch(TableError):
    """Columns of the data conflict with columns of the table."""


class InvalidColumn(TableError):
    """A column has a type or a name that Delta does not support."""


class FileConflict(TableError):
    """Another writer removed files that this commit was to replace."""


class KeyConflict(TableError):
    """The rows of one key cannot be ordered, or a column cannot be a key."""


class TooManyConflicts(TableError):
    """Other writers committed first too many times in a row."""


class OffsetConflict(TableError):
    """The table is neither at the start nor at the end of the batch: another writer moved it."""

    def __init__(self, partition: TopicPartition, stored: int, start: int, end: int) -> None:
        super().__init__(partition, stored, start, end)
        self.partition = partition
        self.stored = stored
        self.start = start
        self.end = end

    def __str__(self) -> str:
        return (
            f"the table has {self.partition} up to offset {self.stored}, the batch goes from"
            f" {self.start} to {self.end}: another writer landed some of it; start again from the"
            " offsets that the table has"
        )
