"""Fast encoding and decoding of offset commit records, the most frequent ones by far.

Only the usual form is supported: version 4 with a topic id and short metadata. Other forms go to
the generic codec (`coordinator/coordinator_records.py`), which produces the same bytes. A new field
belongs into the generated message OffsetCommitValue, into CommittedOffset in the same order, and
into the structs below.
"""

import struct
from typing import TYPE_CHECKING

from sawlog.groups.offsets.committed_offset import NO_TIME, CommittedOffset
from sawlog.protocol.schema import NO_UUID

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import EncodedRecord
    from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
    from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue

KIND = 1
VERSION = 4
MAX_STRING_BYTES = 0x7FFF
MAX_METADATA_BYTES = 0x7E
"""The length of longer metadata takes more than one byte."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_KEY_HEAD = struct.Struct(">hh")  # kind, length of the group id
_HEAD = struct.Struct(">hqiB")  # version, offset, leader epoch, length of the metadata + 1
_TAIL = struct.Struct(">q3s16s")  # commit time, one tagged field, the topic id in it
_PLAIN = struct.Struct(">hqiBq3s16s")  # the whole value without metadata
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one field: tag 0, 16 bytes
_PREFIX = _SHORT.pack(KIND)
_new = tuple.__new__


def encode_commit(
    key: "OffsetCommitKey", value: "OffsetCommitValue | None", version: int
) -> "EncodedRecord | None":
    """Encode a commit as `RecordFormat.encode` does; None if its form is not supported."""
    if value is None or version != VERSION or value.topic_id == NO_UUID:
        return None
    group = key.group.encode()
    topic = key.topic.encode()
    if len(group) > MAX_STRING_BYTES or len(topic) > MAX_STRING_BYTES:
        return None
    encoded_key = b"".join(
        (
            _KEY_HEAD.pack(KIND, len(group)),
            group,
            _SHORT.pack(len(topic)),
            topic,
            _INT.pack(key.partition),
        )
    )
    if not value.metadata:
        return encoded_key, _PLAIN.pack(
            VERSION,
            value.offset,
            value.leader_epoch,
            1,
            value.commit_timestamp,
            _TOPIC_ID_TAG,
            value.topic_id,
        )
    metadata = value.metadata.encode()
    if len(metadata) > MAX_METADATA_BYTES:
        return None
    head = _HEAD.pack(VERSION, value.offset, value.leader_epoch, len(metadata) + 1)
    tail = _TAIL.pack(value.commit_timestamp, _TOPIC_ID_TAG, value.topic_id)
    return encoded_key, head + metadata + tail


def decode_committed(value: bytes) -> CommittedOffset | None:
    """Decode the value of a commit; None if its form is not supported."""
    size = len(value)
    if size == _PLAIN.size:
        version, offset, epoch, length, commit_ms, tag, topic_id = _PLAIN.unpack(value)
        if version == VERSION and length == 1 and tag == _TOPIC_ID_TAG and topic_id != NO_UUID:
            return _new(CommittedOffset, (offset, epoch, "", commit_ms, NO_TIME, topic_id))
        return None
    if size < _PLAIN.size:
        return None
    version, offset, epoch, length = _HEAD.unpack_from(value)
    if version != VERSION or size != _PLAIN.size + length - 1 or length > MAX_METADATA_BYTES + 1:
        return None
    commit_ms, tag, topic_id = _TAIL.unpack_from(value, size - _TAIL.size)
    if tag != _TOPIC_ID_TAG or topic_id == NO_UUID:
        return None
    try:
        metadata = value[_HEAD.size : size - _TAIL.size].decode()
    except UnicodeDecodeError:
        return None
    return _new(CommittedOffset, (offset, epoch, metadata, commit_ms, NO_TIME, topic_id))


def decode_key_head(key: bytes) -> tuple[str, str] | None:
    """Decode group and topic from the key without its partition; None if it is not a commit."""
    if key[:2] != _PREFIX or len(key) < 6:
        return None
    start = _KEY_HEAD.size
    topic_length = start + _SHORT.unpack_from(key, 2)[0]
    if not start <= topic_length <= len(key) - _SHORT.size:
        return None
    topic_start = topic_length + _SHORT.size
    if _SHORT.unpack_from(key, topic_length)[0] != len(key) - topic_start:
        return None
    try:
        return key[start:topic_length].decode(), key[topic_start:].decode()
    except UnicodeDecodeError:
        return None
