"""The fast encoding of offset commits equals that of the codec for all values."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.coordinator.coordinator_records import Entry, RecordFormat, UnknownRecord
from sawlog.core.errors import MalformedFrame
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.groups.offsets.commit_codec import decode_committed, decode_key_head, encode_commit
from sawlog.groups.offsets.offset_table import OffsetTable, from_record
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue

CODEC = RecordFormat((OffsetCommitKey, OffsetCommitValue))
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=140)
UUIDS = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
KEYS = st.builds(OffsetCommitKey, TEXTS, TEXTS, INTS)
VALUES = st.builds(OffsetCommitValue, LONGS, INTS, TEXTS, LONGS, LONGS, UUIDS)
VERSIONS = st.integers(0, 4)


@settings(deadline=None)
@given(KEYS, VALUES, VERSIONS)
def test_fast_encoding_equals_the_codec(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int
) -> None:
    quick = encode_commit(key, value, version)
    expected = CODEC.encode(Entry(key, value, version))
    assert quick in (None, expected)
    assert GROUP_RECORDS.encode(Entry(key, value, version)) == expected
    is_usual = version == 4 and any(value.topic_id) and len(value.metadata.encode()) < 127
    assert (quick is not None) == is_usual


@settings(deadline=None)
@given(KEYS, VALUES, VERSIONS)
def test_fast_decoding_equals_the_codec(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int
) -> None:
    written_key, written = CODEC.encode(Entry(key, value, version))
    assert written is not None
    read = CODEC.decode(written_key, written).value
    assert isinstance(read, OffsetCommitValue)
    assert decode_committed(written) in (None, from_record(read))
    assert decode_key_head(written_key[:-4]) == (key.group, key.topic)
    offsets, expected = OffsetTable(), OffsetTable()
    expected.replay(key, read)
    if not offsets.replay_encoded(written_key, written):
        offsets.replay(key, read)
    assert offsets.by_group == expected.by_group


@settings(deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=80), st.booleans())
def test_arbitrary_bytes_are_skipped_or_decoded_as_the_codec_does(
    key: bytes, value: bytes, looks_right: bool
) -> None:
    if looks_right:
        key, value = b"\x00\x01" + key, b"\x00\x04" + value
    offsets = OffsetTable()
    if not offsets.replay_encoded(key, value):
        assert offsets.by_group == {}
        return
    expected = OffsetTable()
    try:
        entry = CODEC.decode(key, value)
    except (MalformedFrame, UnknownRecord) as error:
        raise AssertionError("the codec refuses it") from error
    assert isinstance(entry.key, OffsetCommitKey)
    assert isinstance(entry.value, OffsetCommitValue)
    expected.replay(entry.key, entry.value)
    assert offsets.by_group == expected.by_group
