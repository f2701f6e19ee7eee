"""Which logs lost records that were flushed, on disk: `damaged-log-checkpoint`.

Recovery lowers the recovery point of a log that turns out to be shorter, so a second restart would
notice nothing. A log is therefore noted here before, until it has its records again from a leader,
or until it is clear that no other replica has them.
"""

from collections.abc import Mapping

from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Disk
from sawlog.storage import log_files
from sawlog.storage.log_files import DamagedLog

TRUNCATED = 2**63 - 1
"""The offset of a log that was truncated at its damage, and lacks only the records after it."""


class DamagedLogs:
    """The logs of a data directory that lost records.

    Invariant: `entries` is what the file has; every change is durable when its method returns.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.entries: dict[TopicPartition, DamagedLog] = {}

    def start(
        self,
        noted: Mapping[TopicPartition, DamagedLog],
        found: Mapping[TopicPartition, DamagedLog],
    ) -> None:
        """Begin with the entries of the file and those of the logs that were found damaged now;
        DiskError if they cannot be written. A log that was damaged already may have fetched newer
        epochs since: the newest that it ever had counts."""
        self.entries = dict(noted)
        new = {}
        for tp, log in found.items():
            before = noted.get(tp, log)
            new[tp] = DamagedLog(
                min(log.offset, before.offset), max(log.last_epoch, before.last_epoch)
            )
        if new:
            self._write(self.entries | new)

    def truncated(self, tp: TopicPartition) -> None:
        """The log was truncated at its damage."""
        log = self.entries[tp]
        if log.offset != TRUNCATED:
            self._write(self.entries | {tp: log._replace(offset=TRUNCATED)})

    def remove(self, tp: TopicPartition) -> None:
        """The log is not damaged any more, or not a log of this directory."""
        if tp in self.entries:
            self._write({other: log for other, log in self.entries.items() if other != tp})

    def _write(self, entries: dict[TopicPartition, DamagedLog]) -> None:
        self._disk.replace(log_files.DAMAGED_LOGS, log_files.encode_damaged_logs(entries))
        self.entries = entries
