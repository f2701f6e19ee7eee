"""Which logs lost records that were flushed, on disk: `damaged-log-checkpoint`.

Recovery lowers the recovery point of a log that turns out to be shorter, so a second restart would
notice nothing. A log is therefore noted here before, until it has its records again from a leader,
or until it is clear that no other replica has them.
"""

from collections.abc import Mapping

from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Disk
from sawlog.storage import log_files

TRUNCATED = 2**63 - 1
"""The entry of a log that was truncated at its damage, and lacks only the records after it."""


class DamagedLogs:
    """The offset of the first lost record of each damaged log.

    Invariant: `offsets` is what the file has; every change is durable when its method returns.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.offsets: dict[TopicPartition, int] = {}

    def start(
        self, noted: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int]
    ) -> None:
        """Begin with the entries of the file and those of the logs that were found damaged now;
        DiskError if they cannot be written."""
        self.offsets = dict(noted)
        new = {tp: min(offset, noted.get(tp, offset)) for tp, offset in found.items()}
        if new:
            self._write(self.offsets | new)

    def truncated(self, tp: TopicPartition) -> None:
        """The log was truncated at its damage."""
        if self.offsets[tp] != TRUNCATED:
            self._write(self.offsets | {tp: TRUNCATED})

    def remove(self, tp: TopicPartition) -> None:
        """The log is not damaged any more, or not a log of this directory."""
        if tp in self.offsets:
            self._write({other: offset for other, offset in self.offsets.items() if other != tp})

    def _write(self, offsets: dict[TopicPartition, int]) -> None:
        self._disk.replace(log_files.DAMAGED_LOGS, log_files.encode_offsets(offsets))
        self.offsets = offsets
