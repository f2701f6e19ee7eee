"""A decoder returns a message or raises MalformedFrame, in little memory, whatever the bytes:
random ones, truncated and changed frames, huge counts."""

from random import Random, getrandbits
from struct import pack

import pytest

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec import decoder, encode
from sawlog.protocol.headers import read_request_header, read_response_header
from sawlog.protocol.layout import StructLayout, lay_out
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest
from sawlog.protocol.messages.fetch_request import FetchRequest
from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.protocol.schema import Message
from sawlog.protocol.wire_primitives import MAX_REQUEST_ELEMENTS, uvarint
from support.protocol.messages import all_messages, random_message, versions_of
from support.single_threaded import PeakMemory, single_threaded
from support.tiers import rounds

HOSTILE = (
    b"\x7f\xff\xff\xff",  # the largest int32
    b"\xff\xff\xff\xff",  # -1
    b"\x80\x00\x00\x00",  # the smallest
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x0f",  # the largest 32-bit varint
    b"\xff\xff\xff\xff\x7f",  # 35 bits
    b"\xff\xff\xff\xff\xff\xff\xff\xff",  # a varint without end
    b"\x80\x80\x80\x80\x80\x80",
    b"\x00",
    b"\xff",
)
ALL_MESSAGES = all_messages()
PEAK_BYTES_PER_FRAME_BYTE = 200
SPARE_BYTES = 64 * 1024


def decodes_or_is_rejected(cls: type[Message], version: int, frame: bytes) -> bool:
    """Return whether the frame is a message; other exceptions than MalformedFrame pass."""
    try:
        decoder(cls, version)(memoryview(frame), 0)
    except MalformedFrame:
        return False
    return True


def mutations(frame: bytes, random: Random, count: int) -> list[bytes]:
    """Return copies with bytes overwritten, hostile numbers inserted, pieces removed."""
    changed = []
    for _ in range(count):
        copy = bytearray(frame)
        for _ in range(random.choice((1, 1, 2, 5))):
            position = random.randrange(len(copy) + 1)
            match random.randrange(4):
                case 0:
                    copy[position : position + 1] = random.randbytes(1)
                case 1:
                    hostile = random.choice(HOSTILE)
                    copy[position : position + len(hostile)] = hostile
                case 2:
                    copy[position:position] = random.choice(HOSTILE)
                case 3:
                    del copy[position : position + random.randrange(8)]
        changed.append(bytes(copy))
    return changed


def fuzz(cls: type[Message], random: Random, rounds: int) -> None:
    versions = versions_of(cls)
    for _ in range(rounds):
        version = random.choice(versions)
        frame = encode(random_message(cls, version, random), version)
        for mutation in mutations(frame, random, 20):
            decodes_or_is_rejected(cls, version, mutation)
        for _ in range(5):
            decodes_or_is_rejected(cls, version, random.randbytes(random.randrange(64)))
        for end in {random.randrange(len(frame) + 1) for _ in range(10)}:
            assert decodes_or_is_rejected(cls, version, frame[:end]) == (end == len(frame))


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_invalid_bytes_raise_malformed_frame_only(cls: type[Message]) -> None:
    fuzz(cls, Random(f"fuzz {cls.__name__}"), rounds=4)


@pytest.mark.parametrize("count", rounds(long=100, soak=5_000))
@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_invalid_bytes_raise_malformed_frame_over_many_rounds(
    cls: type[Message], count: int
) -> None:
    fuzz(cls, Random(getrandbits(64)), rounds=count)  # pytest-randomly prints and sets the seed


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_hostile_bytes_take_little_memory(cls: type[Message]) -> None:
    random = Random(f"memory {cls.__name__}")
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        frame = encode(random_message(cls, version, random), version)
        frames = mutations(frame, random, 10) + [hostile * 8 for hostile in HOSTILE]
        peaks = single_threaded(peaks_of, cls, version, frames)
        for each, peak in zip(frames, peaks, strict=True):
            assert peak < SPARE_BYTES + PEAK_BYTES_PER_FRAME_BYTE * len(each)


def peaks_of(cls: type[Message], version: int, frames: list[bytes]) -> list[int]:
    """The memory that decoding takes, for each frame."""
    decodes_or_is_rejected(cls, version, b"")  # compiled before it is measured
    peaks = []
    for frame in frames:
        with PeakMemory() as peak:
            decodes_or_is_rejected(cls, version, frame)
        peaks.append(peak.bytes)
    return peaks


@pytest.mark.parametrize("claimed", [0x7FFFFFFF, 1_000_000, 3])
def test_a_count_beyond_the_frame_is_rejected_before_allocation(
    claimed: int,
) -> None:
    for version, count in ((8, pack(">i", claimed)), (12, uvarint(claimed + 1))):
        frame = count + b"\0\0"
        (peak,) = single_threaded(peaks_of, MetadataRequest, version, [frame])
        assert peak < SPARE_BYTES
        with pytest.raises(MalformedFrame, match="topics: too many elements"):
            decoder(MetadataRequest, version)(memoryview(frame), 0)


def test_too_many_elements_are_rejected_even_if_the_frame_has_them() -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    frame = uvarint(count + 1) + b"\x01" * count + pack(">ib", 0, 0)
    (peak,) = single_threaded(peaks_of, DeleteTopicsRequest, 4, [frame])
    assert peak < 2 * len(frame)
    with pytest.raises(MalformedFrame, match="topic_names: too many elements"):
        decoder(DeleteTopicsRequest, 4)(memoryview(frame), 0)


def test_elements_are_counted_over_all_arrays_of_a_message() -> None:
    version = 18
    topic = bytes(16) + b"\x01" + b"\x00"  # an id, no partitions, no tags
    head = pack(">iiibii", 0, 0, 0, 0, 0, 0)
    within, beyond = MAX_REQUEST_ELEMENTS // 2, MAX_REQUEST_ELEMENTS // 2 + 1
    topics = uvarint(within + 1) + topic * within
    decode = decoder(FetchRequest, version)
    for forgotten, is_refused in ((within, False), (beyond, True)):
        frame = head + topics + uvarint(forgotten + 1) + topic * forgotten + b"\x01\x00"
        if is_refused:
            with pytest.raises(MalformedFrame, match="forgotten_topics_data"):
                decode(memoryview(frame), 0)
        else:
            assert decode(memoryview(frame), 0)[1] == len(frame)


def test_every_array_element_has_at_least_one_byte() -> None:
    """Otherwise a count could not be checked against the remaining bytes."""

    def check(layout: StructLayout) -> None:
        for field in (*layout.present, *layout.tagged):
            if field.is_array:
                assert field.element.minimum_size > 0
            if field.struct is not None:
                check(field.struct)

    for cls in ALL_MESSAGES:
        for version in versions_of(cls):
            check(lay_out(cls, version))


def test_headers_reject_invalid_bytes() -> None:
    random = Random("headers")
    for _ in range(5000):
        start = pack(">hh", random.randrange(-1, 100), random.randrange(-1, 20))
        frame = memoryview(start + random.randbytes(random.randrange(32)))
        try:
            assert read_request_header(frame)[1] <= len(frame)
        except MalformedFrame:
            pass
        try:
            assert read_response_header(frame, random.randrange(2))[1] <= len(frame)
        except MalformedFrame:
            pass
