"""Codecs: round trips, what other writers write, and bounded decompression of hostile bytes."""

import gzip
import struct
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress

TEXT = b"all work and no play makes a dull log " * 5_000
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def refusal(codec: int, data: bytes, limit: int = 1_000_000) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        decompress(codec, data, limit)
    return refused.value.code


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 300])
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_past_the_limit_is_too_large(codec: Codec) -> None:
    assert refusal(codec, compress(codec, TEXT), len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_goes_off_in_a_small_room(codec: Codec) -> None:
    bomb = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        assert refusal(codec, bomb, 1_000_000) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_frame_cut_anywhere_is_corrupt(codec: Codec) -> None:
    frame = compress(codec, TEXT[:100])
    lengths = range(1, len(frame))
    if codec is Codec.SNAPPY:
        lengths = range(17, len(frame))  # the header alone is an empty stream
    for length in lengths:
        assert refusal(codec, frame[:length]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS)
def test_noise_is_corrupt(codec: Codec) -> None:
    assert refusal(codec, b"\xfe" * 100) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_unsupported_both_ways(codec: int) -> None:
    assert refusal(codec, b"") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError) as refused:
        compress(codec, b"")
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_raw_snappy_as_librdkafka_writes_it_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_snappy_streams_one_after_the_other_are_read() -> None:
    twice = compress(Codec.SNAPPY, TEXT) + compress(Codec.SNAPPY, TEXT)
    assert decompress(Codec.SNAPPY, twice, 2 * len(TEXT)) == TEXT + TEXT


def test_snappy_blocks_together_stay_under_the_limit() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"x" * 600))
    framed = struct.pack(">i", len(block)) + block
    assert decompress(Codec.SNAPPY, XERIAL_HEADER + framed, 1_000) == b"x" * 600
    twice = XERIAL_HEADER + framed + framed
    assert refusal(Codec.SNAPPY, twice, 1_000) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1])
def test_a_snappy_block_of_a_wrong_length_is_corrupt(length: int) -> None:
    frame = XERIAL_HEADER + struct.pack(">i", length) + b"abc"
    assert refusal(Codec.SNAPPY, frame) is ErrorCode.CORRUPT_MESSAGE


def test_a_raw_snappy_block_that_claims_gigabytes_is_refused_unread() -> None:
    assert refusal(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f abc") is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_lz4_frames_of_every_kind_are_read(
    content_size: bool, checksum: bool, linked: bool
) -> None:
    frame = lz4.frame.compress(
        TEXT,
        store_size=content_size,
        content_checksum=checksum,
        block_checksum=checksum,
        block_linked=linked,
    )
    assert decompress(Codec.LZ4, frame, len(TEXT)) == TEXT


def test_our_lz4_frames_have_independent_blocks_for_the_java_reader() -> None:
    frame = compress(Codec.LZ4, TEXT)
    assert lz4.frame.decompress(frame) == TEXT
    assert not lz4.frame.get_frame_info(frame)["block_linked"]


def test_zstd_frames_without_a_content_size_are_read() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    frame = compressor.compress(TEXT)
    assert zstandard.frame_content_size(frame) == -1
    assert decompress(Codec.ZSTD, frame, len(TEXT)) == TEXT
    stream = compressor.compressobj()
    assert decompress(Codec.ZSTD, stream.compress(TEXT) + stream.flush(), len(TEXT)) == TEXT


def test_our_frames_are_read_by_others() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_a_gzip_trailer_that_lies_is_no_more_than_a_hint() -> None:
    several = gzip.compress(TEXT) + gzip.compress(b"x")
    assert decompress(Codec.GZIP, several, len(TEXT) + 1) == TEXT + b"x"
