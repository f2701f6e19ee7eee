"""The embedded store on disk: a snapshot of the tree and journals of what came after it.

`store.journal.<n>` has a record for each multi after change n: magic, length, CRC32C and the JSON
`[number, synced, changes]`, where `synced` is the last change known to be durable when the record
was written; a record without changes is a mark that says only this. So a bad record is a torn tail,
which is cut because nobody was answered for it, or, when a later one says that it was durable, it
is damage, which is refused.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sawlog.cluster.store_tree import Change, Tree
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, File
from sawlog.protocol.checksum import crc32c

SNAPSHOT = "store.snapshot"
JOURNAL_PREFIX = "store.journal."
_JOURNAL = re.compile(r"store\.journal\.[0-9]{20}")
_ASIDE = re.compile(r"store\.(snapshot|reserve)\.[0-9]+\.tmp")
"""Whole names, as they are written here and by the disk: a topic may be called `store.snapshot.x`,
but its directories end with a dash and a number."""
MAGIC = b"SWJ1"
SNAPSHOT_BYTES = 4 << 20
"""Of journal, after which a snapshot is made: as much is read within a tenth of a second."""
BLOCK_BYTES = 4096
HEADER = struct.Struct(">4sII")  # magic, length and CRC32C of the payload
logger = EventLogger("sawlog.cluster.store_journal")


def is_store_file(name: str) -> bool:
    """Is this a name that holds the store: its snapshot or one of its journals?"""
    return name == SNAPSHOT or _JOURNAL.fullmatch(name) is not None


class StoreDamaged(DiskError):
    """Bytes that had been durable have changed: a person must look, nothing is dropped silently."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(
            path,
            f"damaged at byte {position}: {reason}; "
            "restore it from a copy, the broker does not start without its metadata",
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
    """The payload at `position` and where it ends; None where no record checks out."""
    if len(data) < position + HEADER.size:
        return None
    magic, length, crc = HEADER.unpack_from(data, position)
    begin = position + HEADER.size
    raw = data[begin : begin + length]
    if magic != MAGIC or not raw or len(raw) != length or crc32c(raw) != crc:
        return None  # zeros after a torn header would check out as an empty record
    return json.loads(raw), begin + length


def _read_record(data: bytes, position: int) -> _Record | None:
    found = decode_record(data, position)
    if found is None:
        return None
    (number, synced, changes), end = found
    return _Record(number, synced, changes, end)


def _records_after(data: bytes, position: int) -> Iterator[_Record]:
    """Every record that checks out beyond a bad one, wherever it begins."""
    while (position := data.find(MAGIC, position + 1)) >= 0:
        record = _read_record(data, position)
        if record is not None:
            yield record


class Journal:
    """Appends are in order; `synced` is the number of the last change that is durable."""

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

    def open(self) -> Tree:
        """The tree as of the last durable change, and perhaps some that nobody was told of."""
        tree = self._read_snapshot()
        bases: list[int] = []
        for name in self._disk.list(""):
            if _ASIDE.fullmatch(name):
                self._drop_unfinished(name)
            elif _JOURNAL.fullmatch(name):
                bases.append(_base(name))
        bases.sort()
        while len(bases) > 1 and bases[1] <= tree.number:
            self._disk.remove(_name(bases.pop(0)))
        if (bases or tree.number) and bases[:1] != [tree.number]:
            # The journal after a snapshot is made before it, and goes after the next one is there.
            raise StoreDamaged(_name(tree.number), 0, "the file is missing")
        for position, base in enumerate(bases):
            self._replay(tree, base, bases[position + 1] if position + 1 < len(bases) else None)
        self.last = self.synced = tree.number
        self._old_files = [_name(base) for base in bases[:-1]]
        name = _name(bases[-1]) if bases else _name(tree.number)
        self._file = self._disk.open(name, create=True)
        self._file.sync()
        self._disk.sync_directory("")
        return tree

    def _drop_unfinished(self, name: str) -> None:
        """What was written aside; nobody reads it, so that it is no reason not to start."""
        try:
            self._disk.remove(name)
        except DiskError as error:
            logger.warning("unfinished file stays", file=name, reason=error.reason)

    def _read_snapshot(self) -> Tree:
        if not self._disk.exists(SNAPSHOT):
            return Tree()
        data = self._disk.read_file(SNAPSHOT)
        found = decode_record(data, 0)
        if found is None or found[1] != len(data):
            raise StoreDamaged(SNAPSHOT, 0, "its checksum is wrong")
        number, nodes = found[0]
        return Tree.load(number, nodes)

    def _replay(self, tree: Tree, base: int, following: int | None) -> None:
        """One journal; it must reach up to the `following` one, and only the last may be torn."""
        name = _name(base)
        data = self._disk.read_file(name)
        position, last = 0, base
        while position < len(data):
            record = _read_record(data, position)
            if record is None:
                if last != following:  # else it was the mark at the end, which is never synced
                    self._cut_torn_tail(name, data, position, last, is_last=following is None)
                return
            if record.number != last + bool(record.changes):
                raise StoreDamaged(name, position, f"change {record.number} follows {last}")
            last = record.number
            if record.changes and record.number > tree.number:
                tree.replay(record.number, [_change(fields) for fields in record.changes])
            position = record.end
        if following is not None and last != following:
            raise StoreDamaged(name, position, f"it ends with change {last}, not {following}")

    def _cut_torn_tail(
        self, name: str, data: bytes, position: int, last: int, *, is_last: bool
    ) -> None:
        if not is_last or any(r.synced > last for r in _records_after(data, position)):
            raise StoreDamaged(name, position, f"change {last + 1} was durable and is not readable")
        logger.warning(
            "torn tail of the store's journal cut",
            file=name,
            position=position,
            bytes=len(data) - position,
            last_change=last,
        )
        file = self._disk.open(name)
        file.truncate(position)
        file.sync()

    def append(self, number: int, changes: Sequence[Change]) -> None:
        """Raises DiskError, and then nothing was written."""
        self._append([*self._held, self._record(number, changes)], number)

    def hold(self, number: int, changes: Sequence[Change]) -> None:
        """For changes that need not be durable: they are written with the next one that must."""
        self._held.append(self._record(number, changes))
        self._last_held = number

    def append_held(self) -> None:
        """As `append`, of what is held alone."""
        if self._held:
            self._append(self._held, self._last_held)

    def size_of(self, changes: Sequence[Change]) -> int:
        """The room that `append` needs for these, in whole blocks of the disk."""
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
        """One fdatasync at a time: a call while one is under way is dropped, because whoever made
        it asks again when told. Covers every change appended before."""
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
        """Says that all is durable, so that damage to it is told from a torn tail."""
        if self.last != self.synced:
            return
        try:
            self._file.append([_encode([self.last, self.synced, []])])
        except DiskError as error:
            logger.warning("no mark in the store's journal", reason=error.reason)

    def wants_snapshot(self) -> bool:
        """Is the journal long, and quiet enough to begin a new one?"""
        return (
            self._file.size >= self._snapshot_bytes
            and self.last == self.synced
            and not self._held  # the new journal begins where the old one ends
            and not self._snapshotting
        )

    def snapshot(self, tree: Tree) -> None:
        """Begins a new journal and writes the tree aside; then the old journals go. A DiskError
        ends the store, as any fsync that fails."""
        name = _name(tree.number)
        try:
            file = self._disk.open(name, create=True)
        except DiskError as error:
            logger.warning("no new journal for the store", reason=error.reason)
            return
        self._disk.sync_directory("")
        self._snapshotting = True
        self._old_files.append(self._file.path)
        self._file.close()
        self._file = file
        payload = json.dumps([tree.number, list(tree.dump())], separators=(",", ":"))

        def written(error: DiskError | None) -> None:
            self._snapshotting = False
            if error is not None:
                logger.warning("no snapshot of the store", reason=error.reason)
                return
            for old in self._old_files:
                self._disk.remove(old)
            self._old_files = []

        self._disk.replace_later([(SNAPSHOT, encode_record(payload))], written)

    def close(self) -> None:
        self._file.close()


def _encode(payload: list[Any]) -> bytes:
    return encode_record(json.dumps(payload, separators=(",", ":")))


def _name(base: int) -> str:
    return f"{JOURNAL_PREFIX}{base:020d}"


def _base(name: str) -> int:
    return int(name.removeprefix(JOURNAL_PREFIX))


def _change(fields: list[Any]) -> Change:
    kind, path, data, owner = fields
    return Change(kind, path, data.encode("latin-1"), owner)
