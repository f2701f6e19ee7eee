"""What can go wrong with a table, in words that say what to do."""

from sawlog.core.ids import TopicPartition


class TableError(Exception):
    """Something about a table that its caller must know or mend."""


class TableNotFound(TableError):
    """There is no table at that path, or not in that version."""


class TableExists(TableError):
    """Somebody else created the table first."""


class UnsupportedProtocol(TableError):
    """The table was written with features of Delta that are not served here."""


class CorruptLog(TableError):
    """The log of the table cannot be read: an entry is missing or is not what Delta writes."""


class UnsupportedStorage(TableError):
    """The place cannot create a file only where none is, so commits would not be safe there."""


class SchemaMismatch(TableError):
    """Columns that were found do not fit to those that the table has."""


class InvalidColumn(TableError):
    """A column has a type that Delta does not have."""


class FileConflict(TableError):
    """Files that were to be replaced are no longer part of the table: somebody else was first."""


class TooManyConflicts(TableError):
    """Other writers were first so many times in a row that this one gave up."""


class OffsetConflict(TableError):
    """The table is neither at the start of the batch nor at its end: somebody else moved it."""

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
