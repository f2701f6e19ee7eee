"""The codec byte by byte, with examples from the protocol's documentation."""

import traceback

import pytest

from sawlog.core.errors import MalformedFrame
from sawlog.core.ports import FileSlice
from sawlog.protocol.codec import (
    NotEncodable,
    UnsupportedField,
    UnsupportedVersion,
    decode,
    decoder,
    encode,
    encoder,
    parts_encoder,
)
from sawlog.protocol.messages.api_versions_request import ApiVersionsRequest
from sawlog.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from sawlog.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from sawlog.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.schema import Message

TOPIC_ID = bytes(range(16))


class FakeFile:
    """A file for slices."""

    path = "0.log"
    content = b"0123456789"
    size = 10

    def read(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]


FILE = FakeFile()
FIXED_PART_OF_FETCH = "00000000 00000000 00000003 00 00000000 ffffffff 01 01 01"


def file_slice(position: int, length: int) -> FileSlice:
    return FileSlice(FILE, position, length)  # type: ignore[arg-type]


PRODUCE = ProduceRequest(None, -1, 1500, [TopicProduceData("ab", partition_data=[])])
GOLDEN: dict[str, tuple[Message, int, str]] = {
    "an old-style null array": (MetadataRequest(None), 1, "ffffffff"),
    "an old-style empty array": (MetadataRequest([]), 0, "00000000"),
    "an old-style array of structures": (
        MetadataRequest([MetadataRequestTopic(name="ab")], allow_auto_topic_creation=False),
        4,
        "00000001 0002 6162 00",
    ),
    "a compact null array": (MetadataRequest(None), 9, "00 01 00 00 00"),
    "a compact array with a null string and an id": (
        MetadataRequest([MetadataRequestTopic(TOPIC_ID, None)]),
        12,
        "02" + TOPIC_ID.hex() + "00 00 01 00 00",
    ),
    "compact strings and the tag count at the end": (
        ApiVersionsRequest("kcat", "1.7"),
        3,
        "05 6b636174 04 312e37 00",
    ),
    "nothing at all": (ApiVersionsRequest(), 0, ""),
    "fixed fields between a null string and an array": (
        PRODUCE,
        3,
        "ffff ffff 000005dc 00000001 0002 6162 00000000",
    ),
    "the same in compact form": (PRODUCE, 9, "00 ffff 000005dc 02 03 6162 01 00 00"),
    "records": (
        ProduceRequest(
            "t",
            1,
            0,
            [TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(7, b"xyz")])],
        ),
        13,
        "02 74 0001 00000000 02" + TOPIC_ID.hex() + "02 00000007 04 78797a 00 00 00",
    ),
    "a nullable structure that is there": (
        DescribeTopicPartitionsRequest([TopicRequest("a")], 5, Cursor("b", 6)),
        0,
        "02 02 61 00 00000005 01 02 62 00000006 00 00",
    ),
    "a nullable structure that is null": (
        DescribeTopicPartitionsRequest([], 5, None),
        0,
        "01 00000005 ff 00",
    ),
    "tagged fields in the order of their tags": (
        FetchRequest(cluster_id="c", replica_state=ReplicaState(1, 2), max_bytes=3),
        15,
        FIXED_PART_OF_FETCH + "02 00 02 02 63 01 0d 00000001 0000000000000002 00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_has_the_bytes_of_the_protocol(name: str) -> None:
    message, version, expected = GOLDEN[name]
    assert encode(message, version).hex() == expected.replace(" ", "")
    assert decode(type(message), version, bytes.fromhex(expected)) == message


def test_a_field_that_the_version_lacks_gets_its_default() -> None:
    decoded = decode(FetchRequest, 4, encode(FetchRequest(max_wait_ms=5), 4))
    assert decoded == FetchRequest(max_wait_ms=5)
    assert decoded.replica_state == ReplicaState(-1, -1)


def test_messages_do_not_share_mutable_defaults() -> None:
    frame = encode(FetchRequest(), 4)
    for first, second in (
        (FetchRequest(), FetchRequest()),
        (decode(FetchRequest, 4, frame), decode(FetchRequest, 4, frame)),
    ):
        first.replica_state.replica_id = 5
        first.forgotten_topics_data.append(None)  # type: ignore[arg-type]
        assert second == FetchRequest()


def test_an_ignorable_field_is_dropped_in_a_version_that_lacks_it() -> None:
    assert encode(FetchRequest(rack_id="r1"), 4) == encode(FetchRequest(), 4)


def test_a_field_that_is_not_ignorable_is_rejected_in_a_version_that_lacks_it() -> None:
    with pytest.raises(UnsupportedField, match="FetchRequest v14 has no field replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(1, 5)), 14)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(None), 0),
        (MetadataRequest([MetadataRequestTopic(name=None)]), 9),
        (MetadataRequest([MetadataRequestTopic(name="x" * 0x8000)]), 4),
        (MetadataRequest([MetadataRequestTopic(name="x" * 0x8000)]), 9),
        (FetchRequest(max_wait_ms=1 << 31), 4),
        (FetchRequest(max_wait_ms="soon"), 4),  # type: ignore[arg-type]
    ],
    ids=["null array", "null string", "long string", "long compact string", "overflow", "type"],
)
def test_a_value_that_does_not_fit_its_field_is_rejected(message: Message, version: int) -> None:
    with pytest.raises(NotEncodable, match=f"{type(message).__name__}|has 32768 bytes"):
        encode(message, version)


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_an_unknown_version_is_rejected(version: int) -> None:
    for compiled in (decoder, encoder, parts_encoder):
        with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4-18"):
            compiled(FetchRequest, version)


def test_a_codec_is_compiled_once() -> None:
    assert decoder(FetchRequest, 12) is decoder(FetchRequest, 12)
    assert encoder(FetchRequest, 12) is encoder(FetchRequest, 12)
    assert parts_encoder(FetchRequest, 12) is parts_encoder(FetchRequest, 12)


def test_decoded_records_are_a_view_of_the_frame() -> None:
    message = ProduceRequest(
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"batch")])]
    )
    frame = bytearray(encode(message, 9))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("B")
    assert records == b"Batch"
    assert not records.readonly


MALFORMED = {
    "a null that is not allowed": (
        MetadataRequest,
        9,
        "02 00 00 01 00 00",
        "name must not be null",
    ),
    "an old null array that is not allowed": (
        MetadataRequest,
        0,
        "ffffffff",
        "topics must not be null",
    ),
    "text that is not UTF-8": (ApiVersionsRequest, 3, "02 ff 01 00", "utf-8"),
    "a string longer than the frame": (
        ApiVersionsRequest,
        3,
        "7f 61",
        "invalid length 126, 1 bytes",
    ),
    "a string longer than any": (
        ApiVersionsRequest,
        3,
        "818002" + "61" * 0x8000 + "01 00",
        "invalid length 32768",
    ),
    "a cut fixed field": (MetadataRequest, 0, "0000", "unpack_from"),
    "a cut varint": (ApiVersionsRequest, 3, "ff", "index out of range"),
    "a varint of six bytes": (ApiVersionsRequest, 3, "ffffffffff01", "longer than 32 bits"),
    "a varint of 35 bits": (ApiVersionsRequest, 3, "ffffffff7f", "longer than 32 bits"),
    "a tag twice": (ApiVersionsRequest, 3, "01 01 02 05 00 05 00", "tag 5 follows tag 5"),
    "tags out of order": (ApiVersionsRequest, 3, "01 01 02 06 00 05 00", "tag 5 follows tag 6"),
    "a tag larger than the frame": (
        ApiVersionsRequest,
        3,
        "01 01 01 05 09 00",
        "tag 5 has 9 bytes",
    ),
    "more tags than the frame holds": (
        ApiVersionsRequest,
        3,
        "01 01 7f 05 00",
        "too many tagged fields, 127",
    ),
    "a known tag of the wrong size": (
        FetchRequest,
        15,
        FIXED_PART_OF_FETCH + "01 01 0e 00000001 0000000000000002 00 00",
        "replica_state: its size differs",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_is_rejected_with_the_reason(name: str) -> None:
    cls, version, frame, reason = MALFORMED[name]
    with pytest.raises(MalformedFrame, match=f"^{cls.__name__} v{version}: .*{reason}"):
        decode(cls, version, bytes.fromhex(frame))


def test_unknown_tags_are_skipped() -> None:
    frame = bytes.fromhex("05 6b636174 04 312e37 02 05 03 616263 8001 00")
    assert decode(ApiVersionsRequest, 3, frame) == ApiVersionsRequest("kcat", "1.7")


def test_unknown_tags_beside_known_ones_are_skipped() -> None:
    frame = bytes.fromhex(FIXED_PART_OF_FETCH + "02 01 0d 00000001 0000000000000002 00 63 02 aabb")
    expected = FetchRequest(replica_state=ReplicaState(1, 2), max_bytes=3)
    assert decode(FetchRequest, 15, frame) == expected


def test_bytes_after_a_message_are_ignored() -> None:
    frame = memoryview(b"\xee" + encode(ApiVersionsRequest("a", "b"), 3) + b"\xee\xee")
    message, end = decoder(ApiVersionsRequest, 3)(frame, 1)
    assert message == ApiVersionsRequest("a", "b")
    assert end == len(frame) - 2


def fetch_response(*records: FileSlice | bytes | memoryview | None) -> FetchResponse:
    partitions = [PartitionData(index, records=each) for index, each in enumerate(records)]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    )


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_file_slices_become_parts_between_joined_bytes(version: int) -> None:
    response = fetch_response(None, file_slice(2, 3), b"inline", file_slice(0, 0), file_slice(5, 5))
    if version < 13:
        response.responses[0].topic_id = bytes(16)
    parts = parts_encoder(FetchResponse, version)(response)
    kinds = [type(part) for part in parts]
    assert kinds == [bytes, FileSlice, bytes, FileSlice, *([bytes] if version >= 12 else [])]
    assert parts[1] == file_slice(2, 3)
    whole = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
    assert whole == encode(response, version)
    decoded = decode(FetchResponse, version, whole).responses[0].partitions
    assert [each.records for each in decoded] == [None, b"234", b"inline", b"", b"56789"]


def test_a_view_becomes_a_part_without_copying() -> None:
    view = memoryview(bytearray(b"batch"))
    parts = parts_encoder(FetchResponse, 12)(fetch_response(view))
    assert parts[1] is view


def test_a_tagged_struct_is_written_if_it_differs_from_its_default() -> None:
    plain = fetch_response(None)
    diverging = fetch_response(None)
    diverging.responses[0].partitions[0].diverging_epoch = EpochEndOffset(3, 99)
    assert len(encode(diverging, 13)) - len(encode(plain, 13)) == 2 + 4 + 8 + 1
    assert decode(FetchResponse, 13, encode(diverging, 13)) == diverging


def test_own_tagged_fields_are_written_only_if_they_differ_from_their_defaults() -> None:
    plain, awaited = fetch_response(None), fetch_response(None)
    awaited.responses[0].partitions[0].is_awaited = True
    tag_and_value = bytes.fromhex("01 904e 01 01")
    assert tag_and_value not in encode(plain, 18)
    assert tag_and_value in encode(awaited, 18)
    assert len(encode(awaited, 18)) == len(encode(plain, 18)) + 4  # the count was there already
    assert decode(FetchResponse, 18, encode(awaited, 18)) == awaited


def test_the_flushed_offset_of_a_follower_is_a_tagged_field_of_its_fetch() -> None:
    def fetch(flushed_offset: int) -> FetchRequest:
        partition = FetchPartition(0, fetch_offset=7, flushed_offset=flushed_offset)
        return FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])])

    assert decode(FetchRequest, 18, encode(fetch(5), 18)) == fetch(5)
    assert bytes.fromhex("01 904e 08 0000000000000005") in encode(fetch(5), 18)
    assert len(encode(fetch(5), 18)) == len(encode(fetch(-1), 18)) + 11
    old = FetchPartition(0, fetch_offset=7, flushed_offset=5)
    request = FetchRequest(topics=[FetchTopic("orders", partitions=[old])])
    read = decode(FetchRequest, 11, encode(request, 11)).topics[0].partitions[0]
    assert read.flushed_offset == -1  # older versions have no tagged fields


def test_a_traceback_through_a_compiled_codec_shows_its_lines() -> None:
    with pytest.raises(NotEncodable) as caught:
        encode(MetadataRequest([None]), 4)  # type: ignore[list-item]
    lines = traceback.format_exception(caught.value)
    assert any("e_1." in line for line in lines)
