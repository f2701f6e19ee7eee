"""Record batches with keys, the same ones at every call: the data of the compaction rows.

They are sent as they are, one batch per Produce request, so that both brokers have the same bytes
in their segments. `digest` identifies the records of a log, whatever broker wrote it.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.raw import BadAnswer, Wire, check, frame, read
from sawlog.protocol.compression import Codec, compress
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.produce_response import ProduceResponse
from sawlog.protocol.record_batch import MAGIC, BatchHeader, batches_in, encode_batch
from sawlog.protocol.varint import encode_varint
from sawlog.storage.cleaner.batch_filter import open_records

BATCH_BYTES = 16_384
KEY_BYTES = 16
TIMESTAMP_MS = 1_700_000_000_000
PRODUCE_TIMEOUT_MS = 30_000
_SEED = 12
_WORDS = 4_096  # of the text that values are cut from
_POSITION = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class KeyedRecords:
    """Records of `record_bytes`, key and value together, whose keys are drawn at random."""

    records: int
    record_bytes: int
    keys: int
    codec: Codec = Codec.NONE
    step_ms: int = 0  # between the timestamps of a batch and the next one

    def batches(self) -> Iterator[bytearray]:
        """Batches of about 16 KB before compression; the last may be smaller."""
        random = np.random.default_rng(_SEED)
        text = _text(random)
        value_bytes = self.record_bytes - KEY_BYTES
        values = np.lib.stride_tricks.sliding_window_view(text, value_bytes)
        per_batch = max(1, BATCH_BYTES // self.record_bytes)
        skeleton = [_record(delta, value_bytes) for delta in range(per_batch)]
        ends = np.cumsum([len(record) for record in skeleton])
        body = np.frombuffer(b"".join(skeleton), np.uint8).copy()
        # A record ends with its value, the length of the headers (0), and nothing else.
        value_at = ends[:, None] - 1 - value_bytes + np.arange(value_bytes)
        value_length_bytes = len(encode_varint(value_bytes))
        key_at = value_at[:, :1] - value_length_bytes - KEY_BYTES + np.arange(KEY_BYTES)
        for first in range(0, self.records, per_batch):
            count = min(per_batch, self.records - first)
            keys = random.integers(0, self.keys, per_batch)
            starts = random.integers(0, len(values), per_batch)
            body[key_at] = _key_bytes(keys)
            body[value_at] = values[starts]
            records = body[: ends[count - 1]].tobytes()
            timestamp_ms = TIMESTAMP_MS + first // per_batch * self.step_ms
            header = _header(count, self.codec, timestamp_ms)
            yield encode_batch(header, compress(self.codec, records))


def _text(random: np.random.Generator) -> np.ndarray:
    """Words in random order, which compress to about a third."""
    words = [bytes(random.integers(97, 123, int(size), np.uint8)) for size in range(3, 11)] * 16
    chosen = random.integers(0, len(words), _WORDS)
    return np.frombuffer(b" ".join(words[number] for number in chosen), np.uint8)


def _key_bytes(keys: np.ndarray) -> np.ndarray:
    """Keys as decimal numbers with leading zeros, one row of bytes each."""
    powers = 10 ** np.arange(KEY_BYTES - 1, -1, -1)
    return (keys[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _record(delta: int, value_bytes: int) -> bytes:
    body = b"".join(
        (
            b"\0\0",  # attributes, timestamp delta
            encode_varint(delta),
            encode_varint(KEY_BYTES),
            bytes(KEY_BYTES),
            encode_varint(value_bytes),
            bytes(value_bytes),
            b"\0",  # no headers
        )
    )
    return encode_varint(len(body)) + body


def _header(count: int, codec: Codec, timestamp_ms: int) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def send(bootstrap: str, topic: str, batches: Iterator[bytearray]) -> int:
    """Append the batches to partition 0, in order; return their bytes."""
    wire = Wire(bootstrap)
    sent = 0
    for batch in batches:
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        wire.send(frame(request))
        while (answer := wire.receive()) is None:
            pass
        _check(answer)
        sent += len(batch)
    wire.close()
    return sent


def _check(answer: bytes) -> None:
    for topic in read(answer, ProduceResponse).responses:
        for partition in topic.partition_responses:
            check(partition)


def digest(directory: Path) -> tuple[int, str]:
    """The number of the records in the segments of a partition, and a hash over their offsets,
    timestamps, keys and values."""
    count = 0
    state = hashlib.blake2b(digest_size=16)
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in batches_in(memoryview(data)):
            if not header.count:
                continue
            body, columns = open_records(data, position, header)
            for number, delta in enumerate(columns.offset_deltas):
                state.update(_POSITION.pack(header.base_offset + delta, header.base_timestamp))
                state.update(body[columns.starts[number] : columns.starts[number + 1]])
            count += header.count
    if not count:
        raise BadAnswer(f"{directory.name} has no records")
    return count, state.hexdigest()
