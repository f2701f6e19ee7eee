"""The table of committed offsets, loaded from records of all versions."""

import pytest

from sawlog.coordinator.coordinator_records import Entry
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.groups.offsets.committed_offset import CommittedOffset
from sawlog.groups.offsets.offset_table import OffsetTable
from sawlog.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from sawlog.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue

KEY = OffsetCommitKey("g", "t", 0)
ID = bytes(range(16))


def loaded(*entries: Entry) -> OffsetTable:
    """As at a start: each record as it is written."""
    offsets = OffsetTable()
    for entry in entries:
        key, value = GROUP_RECORDS.encode(entry)
        if value is None or not offsets.replay_encoded(key, value):
            offsets.replay(*GROUP_RECORDS.decode(key, value)[:2])
    return offsets


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, CommittedOffset(5, -1, "words", 7)),
        (1, CommittedOffset(5, -1, "words", 7, 9)),
        (2, CommittedOffset(5, -1, "words", 7)),
        (3, CommittedOffset(5, 2, "words", 7)),
        (4, CommittedOffset(5, 2, "words", 7, topic_id=ID)),
    ],
)
def test_every_version_of_a_commit_is_read(version: int, expected: CommittedOffset) -> None:
    offsets = loaded(Entry(KEY, OffsetCommitValue(5, 2, "words", 7, 9, ID), version))
    assert offsets.get("g", "t", 0) == expected


def test_legacy_commit_records_are_read() -> None:
    key, value = LegacyOffsetCommitKey("g", "t", 0), LegacyOffsetCommitValue(5, "words", 7)
    assert loaded(Entry(key, value)).get("g", "t", 0) == CommittedOffset(5, -1, "words", 7)


def test_later_records_replace_earlier_ones() -> None:
    legacy = Entry(LegacyOffsetCommitKey("g", "t", 0), LegacyOffsetCommitValue(1, "", 1))
    old = Entry(KEY, OffsetCommitValue(2, 0, "", 2), 3)
    new = Entry(KEY, OffsetCommitValue(3, 0, "", 3, topic_id=ID), 4)
    for *_, last in ([legacy, old, new], [new, old, legacy], [old, new]):
        assert loaded(legacy, old, new, last).get("g", "t", 0) == loaded(last).get("g", "t", 0)


def test_empty_mappings_are_removed() -> None:
    offsets = OffsetTable()
    one = CommittedOffset(1, -1, "", 1)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        offsets.put("g", topic, partition, one)
    offsets.remove("g", "t", 0)
    assert offsets.by_group == {"g": {"t": {1: one}, "u": {0: one}}}
    offsets.remove("g", "t", 1)
    assert offsets.by_group == {"g": {"u": {0: one}}}
    offsets.remove("g", "u", 0)
    assert offsets.by_group == {}
    offsets.remove("g", "u", 0)
    offsets.remove("nobody", "u", 0)
    assert offsets.by_group == {}


def test_a_look_up_adds_nothing() -> None:
    offsets = OffsetTable()
    assert offsets.get("g", "t", 0) is None
    assert offsets.partitions("g", "t") == {}
    assert offsets.tombstones("g") == []
    assert offsets.by_group == {}


def test_a_commit_after_a_deletion_while_loading_is_not_lost() -> None:
    value = OffsetCommitValue(5, 2, "", 7, topic_id=ID)
    offsets = loaded(Entry(KEY, value, 4), Entry(KEY, None), Entry(KEY, value, 4))
    assert offsets.get("g", "t", 0) == CommittedOffset(5, 2, "", 7, topic_id=ID)
