"""The embedded store on disk: a snapshot of the tree, and journals of the changes after it.

`store.journal.<n>` has a record for each multi after change n: magic, length, CRC32C and the JSON
`[number, synced, changes]`, where `synced` is the last change known to be durable when the record
was written. A record without changes is a mark that only carries `synced`. An invalid record is a
torn tail, which is truncated because it was never acknowledged, unless a later record says that it
was durable: then the file is damaged and the store does not open.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sawlog.cluster.store_tree import Change, StoreTree
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, File
from sawlog.protocol.checksum import crc32c

SNAPSHOT = "store.snapshot"
JOURNAL_PREFIX = "store.journal."
_JOURNAL = re.compile(r"store\.journal\.[0-9]{20}")
_TEMPORARY = re.compile(r"store\.(snapshot|reserve)\.[0-9]+\.tmp")
"""Temporary files of `Disk.replace`. A topic may be called `store.snapshot.x`, but its directories
end with a dash and a number."""
MAGIC = b"SWJ1"
SNAPSHOT_BYTES = 4 << 20
"""The journal's size that triggers a snapshot; so much is read in a tenth of a second."""
BLOCK_BYTES = 4096
HEADER = struct.Struct(">4sII")  # magic, length and CRC32C of the payload
logger = EventLogger("sawlog.cluster.store_journal")


def is_store_file(name: str) -> bool:
    """Whether a file belongs to the store: its snapshot or one of its journals."""
    return name == SNAPSHOT or _JOURNAL.fullmatch(name) is not None


class StoreDamaged(DiskError):
    """Durable bytes have changed on disk; the broker does not start, so that nothing is lost."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(
            path,
            f"damaged at byte {position}: {reason}; "
            "the broker does not start without its metadata; restore the file from a backup",
        )
        self.position = position


class _Record(NamedTuple):
    number: int
    synced: int
    changes: list[list[Any]]
    end: int


def encode_record(payload: str) -> bytes:
    raw = payload.encode("ascii")
    return HEADER.pack(MAGIC, len(raw), crc32c(raw)) + raw


def decode_record(data: bytes, position: int) -> tuple[Any, int] | None:
    """Return the payload at `position` and its end; None if no valid record is there."""
    if len(data) < position + HEADER.size:
        return None
    magic, length, crc = HEADER.unpack_from(data, position)
    begin = position + HEADER.size
    raw = data[begin : begin + length]
    if magic != MAGIC or not raw or len(raw) != length or crc32c(raw) != crc:
        return None  # `not raw`: zeros after a torn header would be a valid empty record
    return json.loads(raw), begin + length


def _read_record(data: bytes, position: int) -> _Record | None:
    found = decode_record(data, position)
    if found is None:
        return None
    (number, synced, changes), end = found
    return _Record(number, synced, changes, end)


def _records_after(data: bytes, position: int) -> Iterator[_Record]:
    """Yield every valid record after an invalid one, wherever it begins."""
    while (position := data.find(MAGIC, position + 1)) >= 0:
        record = _read_record(data, position)
        if record is not None:
            yield record


class StoreJournal:
    """`last` is the number of the last change appended, `synced` of the last durable one."""

    def __init__(self, disk: Disk, *, snapshot_bytes: int = SNAPSHOT_BYTES) -> None:
        self._disk = disk
        self._snapshot_bytes = snapshot_bytes
        self._file: File
        self._held: list[bytes] = []
        self._last_held = 0
        self._old_files: list[str] = []
        self._syncing = False
        self._snapshotting = False
        self.last = 0
        self.synced = 0

    def open(self) -> StoreTree:
        """Return the tree with all durable changes, and perhaps later ones, never acknowledged."""
        tree = self._read_snapshot()
        bases: list[int] = []
        for name in self._disk.list(""):
            if _TEMPORARY.fullmatch(name):
                self._remove_temporary(name)
            elif _JOURNAL.fullmatch(name):
                bases.append(_base(name))
        bases.sort()
        while len(bases) > 1 and bases[1] <= tree.number:
            self._disk.remove(_name(bases.pop(0)))
        if (bases or tree.number) and bases[:1] != [tree.number]:
            # The journal that follows a snapshot is created before it and removed after the next.
            raise StoreDamaged(_name(tree.number), 0, "the file is missing")
        durable_bytes = 0  # of the last journal; the others were durable before it began
        for position, base in enumerate(bases):
            following = bases[position + 1] if position + 1 < len(bases) else None
            durable_bytes = self._replay(tree, base, following)
        self.last = self.synced = tree.number
        self._old_files = [_name(base) for base in bases[:-1]]
        name = _name(bases[-1]) if bases else _name(tree.number)
        self._file = self._disk.open(name, create=True)
        # If the last fsync failed, the kernel takes the records after it for clean.
        self._file.rewrite(durable_bytes, self._file.size - durable_bytes)
        self._file.sync()
        self._disk.sync_directory("")
        return tree

    def _remove_temporary(self, name: str) -> None:
        """Remove a temporary file; a failure does not prevent the start."""
        try:
            self._disk.remove(name)
        except DiskError as error:
            logger.warning("cannot remove a temporary file", file=name, reason=error.reason)

    def _read_snapshot(self) -> StoreTree:
        if not self._disk.exists(SNAPSHOT):
            return StoreTree()
        data = self._disk.read_file(SNAPSHOT)
        found = decode_record(data, 0)
        if found is None or found[1] != len(data):
            raise StoreDamaged(SNAPSHOT, 0, "its checksum does not match")
        number, nodes = found[0]
        return StoreTree.load(number, nodes)

    def _replay(self, tree: StoreTree, base: int, following: int | None) -> int:
        """Replay one journal. It must reach the `following` one; only the last may be torn.
        Returns how many of its bytes are durable according to the records themselves."""
        name = _name(base)
        data = self._disk.read_file(name)
        position, last = 0, base
        ends: list[int] = []  # of the changes base + 1, base + 2, ...
        synced = base
        while position < len(data):
            record = _read_record(data, position)
            if record is None:
                if last != following:  # else it is the mark at the end, which is never synced
                    self._truncate_torn_tail(name, data, position, last, is_last=following is None)
                break
            if record.number != last + bool(record.changes):
                raise StoreDamaged(name, position, f"change {record.number} follows change {last}")
            last = record.number
            synced = max(synced, record.synced)
            if record.changes:
                ends.append(record.end)
                if record.number > tree.number:
                    tree.replay(record.number, [_change(fields) for fields in record.changes])
            position = record.end
        if following is not None and last != following:
            raise StoreDamaged(name, position, f"it ends with change {last} instead of {following}")
        durable = min(synced, last) - base
        return ends[durable - 1] if durable > 0 else 0

    def _truncate_torn_tail(
        self, name: str, data: bytes, position: int, last: int, *, is_last: bool
    ) -> None:
        if not is_last or any(r.synced > last for r in _records_after(data, position)):
            raise StoreDamaged(name, position, f"change {last + 1} was durable and is unreadable")
        logger.warning(
            "truncated the torn tail of the store's journal",
            file=name,
            position=position,
            bytes=len(data) - position,
            last_change=last,
        )
        file = self._disk.open(name)
        file.truncate(position)
        file.sync()

    def append(self, number: int, changes: Sequence[Change]) -> None:
        """Append changes; after a DiskError nothing was written."""
        self._append([*self._held, self._record(number, changes)], number)

    def hold(self, number: int, changes: Sequence[Change]) -> None:
        """Keep changes that need not be durable in memory, until the next append writes them."""
        self._held.append(self._record(number, changes))
        self._last_held = number

    def append_held(self) -> None:
        """Append the held changes alone."""
        if self._held:
            self._append(self._held, self._last_held)

    def size_of(self, changes: Sequence[Change]) -> int:
        """Return how much disk space `append` needs for these changes, in whole blocks."""
        size = sum(map(len, self._held)) + len(self._record(self.last, changes))
        return size + 2 * BLOCK_BYTES

    def _record(self, number: int, changes: Sequence[Change]) -> bytes:
        rows = [[c.kind, c.path, c.data.decode("latin-1"), c.owner] for c in changes]
        return _encode([number, self.synced, rows])

    def _append(self, records: list[bytes], last: int) -> None:
        self._file.append(records)
        self._held = []
        self.last = last

    def sync_later(self, done: Callable[[DiskError | None], None]) -> None:
        """Call fdatasync off the loop; it covers every change appended before. A call while one is
        under way is ignored: its `done` must call again if changes are left."""
        if self._syncing:
            return
        self._syncing = True
        covered = self.last

        def synced(error: DiskError | None) -> None:
            self._syncing = False
            if error is None:
                self.synced = covered
                self._mark()
            done(error)

        self._file.sync_later(synced)

    def _mark(self) -> None:
        """Record that all changes are durable, to distinguish later damage from a torn tail."""
        if self.last != self.synced:
            return
        try:
            self._file.append([_encode([self.last, self.synced, []])])
        except DiskError as error:
            logger.warning("cannot append a mark to the store's journal", reason=error.reason)

    def wants_snapshot(self) -> bool:
        """Whether the journal is long enough for a snapshot, and all of it is durable."""
        return (
            self._file.size >= self._snapshot_bytes
            and self.last == self.synced
            and not self._held  # they belong to the old journal
            and not self._snapshotting
        )

    def snapshot(self, tree: StoreTree) -> None:
        """Start a new journal and write a snapshot of the tree off the loop, then remove the old
        journals. A DiskError must end the session, as with any failed fsync."""
        name = _name(tree.number)
        try:
            file = self._disk.open(name, create=True)
        except DiskError as error:
            logger.warning("cannot start a new journal for the store", reason=error.reason)
            return
        self._disk.sync_directory("")
        self._snapshotting = True
        self._old_files.append(self._file.path)
        self._file.close()
        self._file = file
        record = _encode_snapshot(tree)

        def written(error: DiskError | None) -> None:
            self._snapshotting = False
            if error is not None:
                logger.warning("cannot write a snapshot of the store", reason=error.reason)
                return
            for old in self._old_files:
                self._disk.remove(old)
            self._old_files = []

        self._disk.replace_later([(SNAPSHOT, record)], written)

    def close(self) -> None:
        self._file.close()


def create_store(disk: Disk, tree: StoreTree) -> None:
    """Write a store with this tree, which has a change, into a directory without one.

    The snapshot comes last: a journal without it is damaged, so no broker starts before this
    returns.
    """
    journal = disk.open(_name(tree.number), create=True)
    journal.sync()
    journal.close()
    disk.sync_directory("")
    disk.replace(SNAPSHOT, _encode_snapshot(tree))


def _encode_snapshot(tree: StoreTree) -> bytes:
    return _encode([tree.number, list(tree.dump())])


def _encode(payload: list[Any]) -> bytes:
    return encode_record(json.dumps(payload, separators=(",", ":")))


def _name(base: int) -> str:
    return f"{JOURNAL_PREFIX}{base:020d}"


def _base(name: str) -> int:
    return int(name.removeprefix(JOURNAL_PREFIX))


def _change(fields: list[Any]) -> Change:
    kind, path, data, owner = fields
    return Change(kind, path, data.encode("latin-1"), owner)
