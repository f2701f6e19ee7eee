"""Ways to corrupt the files of a stopped broker, and a data directory to corrupt."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.record_batch import BatchHeader, batches_in
from support.client.load import PRODUCE_VERSION, produce_request
from support.client_libraries.confluent_library import Confluent
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer

TOPIC = "damaged"
PARTITION = f"{TOPIC}-0"
BATCHES = 330
CHECKPOINTED = 310  # the recovery point lies within these batches
RECORDS_A_BATCH = 10
RECORDS = BATCHES * RECORDS_A_BATCH
VALUE_BYTES = 1_000
FIRST_TIME_MS = int(time.time() * 1_000) - 3_600_000
"""The timestamp of batch 0; batch n is n ms later."""
CONFIG = {"segment.bytes": str(1 << 20), "index.interval.bytes": "20000", "retention.ms": "-1"}


def value_of(offset: int) -> bytes:
    return (b"%d " % offset).ljust(VALUE_BYTES, b".")


def values_of_batch(number: int) -> list[bytes]:
    return [value_of(number * RECORDS_A_BATCH + index) for index in range(RECORDS_A_BATCH)]


class Producer:
    """An idempotent producer that sends requests by hand: batch n begins with sequence 10 n."""

    def __init__(self, server: SawlogServer, producer_id: int | None = None) -> None:
        self._server = server
        with Wire(server.host, server.port) as wire:
            if producer_id is None:
                answer = wire.ask(InitProducerIdRequest(transactional_id=None), 4)
                assert answer is not None
                producer_id = int(answer.producer_id)
        self.producer_id = producer_id

    def send(self, *numbers: int) -> list[int]:
        """Send these batches and return the offsets in the responses."""
        offsets = []
        with Wire(self._server.host, self._server.port) as wire:
            for number in numbers:
                request = produce_request(
                    TOPIC,
                    0,
                    values_of_batch(number),
                    1,
                    FIRST_TIME_MS + number,
                    producer_id=self.producer_id,
                    producer_epoch=0,
                    base_sequence=number * RECORDS_A_BATCH,
                )
                answer = wire.ask(request, PRODUCE_VERSION)
                assert answer is not None
                result = answer.responses[0].partition_responses[0]
                assert result.error_code == 0, result
                offsets.append(result.base_offset)
        return offsets


class DataDirectory(NamedTuple):
    """The data directory of a stopped broker, and the id of the producer that wrote to it."""

    data: Path
    producer_id: int


def write_data_directory(directory: Path, *, is_killed: bool) -> DataDirectory:
    """Write several segments of one partition with a broker that is stopped or killed then."""
    server = SawlogServer(directory)
    try:
        Confluent(server.bootstrap).create_topic(TOPIC, config=CONFIG)
        producer = Producer(server)
        producer.send(*range(CHECKPOINTED))
        _wait_for_checkpoint(server.data)
        producer.send(*range(CHECKPOINTED, BATCHES))
        if not is_killed:
            server.stop()
        return DataDirectory(server.data, producer.producer_id)
    finally:
        server.kill()


def _wait_for_checkpoint(data: Path) -> None:
    """Wait for the checkpoint after a roll; the start offsets are written last."""
    deadline = time.monotonic() + 60
    last = data / "log-start-offset-checkpoint"
    while recovery_point(data) == 0 or not last.exists():
        assert time.monotonic() < deadline, "no checkpoint was written"


def segments(data: Path, suffix: str = ".log") -> list[Path]:
    return sorted((data / PARTITION).glob(f"*{suffix}"))


def batches_of(path: Path) -> list[tuple[int, BatchHeader]]:
    """Position and header of every batch in a segment."""
    return list(batches_in(path.read_bytes()))


def recovery_point(data: Path) -> int:
    """The recovery point of the partition in the checkpoint; 0 where it has none."""
    checkpoint = data / "recovery-point-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    points = (line.split() for line in lines[2:])
    return next((int(words[2]) for words in points if words[0] == TOPIC), 0)


def flip(path: Path, position: int) -> None:
    """Flip all bits of one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _flip_middle(path: Path) -> None:
    flip(path, path.stat().st_size // 2)


def _flip_all(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0xFF for byte in path.read_bytes()))


def _cut_odd(path: Path) -> None:
    cut(path, max(0, path.stat().st_size - 3))


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03garbage")


CORRUPTIONS: dict[str, Callable[[Path], None]] = {
    "one byte flipped": _flip_middle,
    "all bytes flipped": _flip_all,
    "cut": _cut_odd,
    "emptied": lambda path: cut(path, 0),
    "garbage at the end": _lengthen,
    "gone": Path.unlink,
}
