"""A copy made beside any sequence of appends, rolls, deletions and compactions is one moment's log.

Whatever the broker does between two steps of the copy, the copy replays to the same dictionary as
the log did at the high watermark of the copy, and deleted keys stay deleted.
"""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.backup.partition_copy import Bounds
from sawlog.protocol.records import Record, build_batch
from support.backup.partition_files import PartitionFiles, values_in

KEYS = 3
OPERATIONS = ("append", "append", "delete key", "roll", "compact", "drop oldest", "nothing")


class LogModel:
    """A log in a directory, and the records that it ever had. One record is one batch."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        self.start = 0
        self.history: list[tuple[int, bytes]] = []  # key and value by offset; b"" deletes the key
        self.segments: dict[int, list[int]] = {}  # offsets by base offset
        self.roll()

    @property
    def end(self) -> int:
        return len(self.history)

    def change(self, operation: str, key: int) -> None:
        match operation:
            case "append":
                self.append(key, b"%d" % self.end)
            case "delete key":
                self.append(key, b"")
            case "roll":
                self.roll()
            case "compact":
                self.compact()
            case "drop oldest":
                self.drop_oldest()

    def append(self, key: int, value: bytes) -> None:
        self.history.append((key, value))
        self.segments[max(self.segments)].append(self.end - 1)
        self._files.write(max(self.segments), self._batch(self.end - 1))

    def roll(self) -> None:
        if self.end not in self.segments:
            self.segments[self.end] = []
            self._files.write(self.end)

    def compact(self) -> None:
        """Clean all closed segments into one: only the last record of a key stays, and no deletion
        marker. The last batch stays, as in Kafka, though here it is a record that is no longer the
        last of its key."""
        *closed, active = sorted(self.segments)
        closed = [base for base in closed if self.segments[base]]
        if not closed:
            return
        last = {self.history[offset][0]: offset for offset in range(active)}
        offsets = [offset for base in closed for offset in self.segments[base]]
        kept = [
            offset
            for offset in offsets
            if offset == offsets[-1]
            or (last[self.history[offset][0]] == offset and self.history[offset][1])
        ]
        self._files.replace(closed, *map(self._batch, kept))
        for base in closed:
            del self.segments[base]
        self.segments[closed[0]] = kept
        self.segments = dict(sorted(self.segments.items()))

    def drop_oldest(self) -> None:
        first, *others = sorted(self.segments)
        if others:
            self.start = others[0]
            self._files.delete(first)
            del self.segments[first]

    def _batch(self, offset: int) -> bytes:
        key, value = self.history[offset]
        record = Record(0, 1_000, b"%d" % key, b"%d=%s" % (key, value))
        return bytes(build_batch([record], base_offset=offset, leader_epoch=0))


def replay(values: list[bytes]) -> dict[bytes, bytes]:
    table = dict(value.split(b"=") for value in values)
    return {key: value for key, value in table.items() if value}


changes = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, KEYS - 1)), max_size=6)


@settings(max_examples=40)
@given(before=changes, beside=st.lists(changes, max_size=8))
def test_a_copy_is_the_log_of_one_moment(
    before: list[tuple[str, int]], beside: list[list[tuple[str, int]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = PartitionFiles(Path(directory) / "data")
        log = LogModel(files)
        for change in before:
            log.change(*change)
        steps = iter(beside)

        def step() -> None:
            for change in next(steps, []):
                log.change(*change)

        def bounds() -> Bounds:
            step()
            answer = Bounds(log.start, log.end)
            step()
            return answer

        copied = files.copy(Path(directory) / "backup", bounds, at_batch=step)
        found = values_in(Path(directory) / "backup" / "orders-0")
        assert all(offset < copied.end_offset for offset in found)
        kept = [value for offset, value in found.items() if offset >= copied.start_offset]
        history = enumerate(log.history)
        expected = [
            b"%d=%s" % (key, value)
            for offset, (key, value) in history
            if copied.start_offset <= offset < copied.end_offset
        ]
        assert replay([value for value in kept if value]) == replay(expected)
