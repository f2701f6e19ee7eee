"""Transaction markers: the control batches that end a producer's transaction in one partition.

A marker is a batch of one record, transactional and control, without a sequence. The key is
ControlRecordTypeSchema and the value EndTxnMarker of Kafka, both with their version in front; a
later version of either is read as version 0, as in Kafka.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import Buffer
from sawlog.protocol.records import BatchBuilder, iterate

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_MAX_BYTES = 1 << 20


class ControlType(IntEnum):
    """The outcome of a transaction, with the numbers of Kafka's ControlRecordType."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """The outcome of a transaction, and the epoch of the coordinator that decided it."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def is_abort(self) -> bool:
        return self.control_type is ControlType.ABORT


def marker_batch(
    marker: EndTransactionMarker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """The batch that ends the transaction of a producer."""
    builder = BatchBuilder()
    builder.append(
        timestamp_ms,
        _KEY.pack(_VERSION, marker.control_type),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return builder.finish(
        producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_marker(batch: Buffer) -> EndTransactionMarker:
    """The marker in the control batch at the beginning of `batch`, which has at least one record.
    INVALID_RECORD if its first record is no marker; CORRUPT_MESSAGE if it cannot be read."""
    record = next(iterate(batch, max_decompressed_bytes=_MAX_BYTES), None)
    if record is None:
        raise _invalid("the control batch has no record")
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        raise _invalid(f"a key of {len(key)} and a value of {len(value)} bytes are no marker")
    key_version, number = _KEY.unpack_from(key)
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or version < 0:
        raise _invalid(f"a marker with the versions {key_version} and {version}: expected 0")
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        raise _invalid(f"the control record type {number} is no marker: expected 0 or 1")
    return EndTransactionMarker(ControlType(number), coordinator_epoch)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
