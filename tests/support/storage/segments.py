"""Segments on a simulated disk, without a log around them."""

from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.segment import Segment
from support.storage.logs import records

DIRECTORY = "topic-0"


class PartitionDirectory:
    """The directory of one partition on a simulated disk."""

    def __init__(self, seed: int = 1) -> None:
        self.schedule = Schedule(seed)
        self.disk = SimulatedDisk(self.schedule.soon)
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory("")

    def segment(self, base_offset: int) -> Segment:
        """Create an empty segment."""
        return Segment(
            self.disk,
            DIRECTORY,
            base_offset,
            created_ms=0,
            index_interval_bytes=4096,
            is_new=True,
        )

    def files(self, suffix: str) -> list[int]:
        """The offsets in the names of all files that end with `suffix`."""
        names = self.disk.list(DIRECTORY)
        return [int(name.removesuffix(suffix)) for name in names if name.endswith(suffix)]

    def lose_power(self, seed: int = 1) -> None:
        self.disk.power_loss(SeededRandom(seed))
        self.schedule.clear()


def append_batch(
    segment: Segment, base_offset: int, *, count: int = 1, epoch: int = 0, value_bytes: int = 10
) -> None:
    """Append a batch without a producer to a segment."""
    contents = records(count, value=bytes(value_bytes))
    batch = build_batch(contents, base_offset=base_offset, leader_epoch=epoch)
    header = read_header(batch)
    segment.append(memoryview(batch), header.size, header.last_offset, header.max_timestamp)
