"""Which records a history allows to be missing: those that retention, DeleteRecords or compaction
may have removed."""

from sawlog.simulation.cluster_profile import Cleanup
from sawlog.simulation.history.history import History


class CleanedRecords:
    """A deleted record lies below a log start offset. A compacted one has a successor of its key at
    a higher offset, and the last of these is in the log at the end."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._keys = {write.value: write.key for write in history.writes}
        self._last_offsets: dict[tuple[int, bytes], int] = {}
        for partition, records in history.last_reads.items():
            for offset, value in records:
                self._last_offsets[partition, self._keys.get(value, value)] = offset

    def may_miss(self, partition: int, offset: int, value: bytes) -> bool:
        """Whether the record may be missing; of an unknown offset if there is any such reason."""
        cleanup = self._history.cleanup
        if cleanup is Cleanup.NONE:
            return False
        if cleanup is Cleanup.COMPACTION:
            last = self._last_offsets.get((partition, self._keys.get(value, value)), -1)
            return last > offset
        start_offset = self._history.start_offsets.get(partition, 0)
        return start_offset > 0 and offset < start_offset
