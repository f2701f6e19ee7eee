"""Compression: round trips, other writers, and bounded decompression of hostile bytes."""

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress
from support.single_threaded import PeakMemory, single_threaded

TEXT = b"all work and no play makes a dull log " * 5_000
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def error_code_of(codec: int, data: bytes, limit: int = 1_000_000) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        decompress(codec, data, limit)
    return raised.value.code


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 300])
def test_compressed_data_round_trips(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_beyond_the_limit_is_too_large(codec: Codec) -> None:
    assert error_code_of(codec, compress(codec, TEXT), len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_takes_little_memory(codec: Codec) -> None:
    assert single_threaded(peak_of_a_bomb, codec) < 3_000_000


def peak_of_a_bomb(codec: Codec) -> int:
    bomb = compress(codec, bytes(50_000_000))
    with PeakMemory() as peak:
        assert error_code_of(codec, bomb, 1_000_000) is ErrorCode.MESSAGE_TOO_LARGE
    return peak.bytes


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_frame_is_corrupt(codec: Codec) -> None:
    frame = compress(codec, TEXT[:100])
    lengths = range(1, len(frame))
    if codec is Codec.SNAPPY:
        lengths = range(17, len(frame))  # the header alone is an empty stream
    for length in lengths:
        assert error_code_of(codec, frame[:length]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS)
def test_random_bytes_are_corrupt(codec: Codec) -> None:
    assert error_code_of(codec, b"\xfe" * 100) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_unsupported(codec: int) -> None:
    assert error_code_of(codec, b"") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError) as raised:
        compress(codec, b"")
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_raw_snappy_from_librdkafka_is_decompressed() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_concatenated_snappy_streams_are_decompressed() -> None:
    twice = compress(Codec.SNAPPY, TEXT) + compress(Codec.SNAPPY, TEXT)
    assert decompress(Codec.SNAPPY, twice, 2 * len(TEXT)) == TEXT + TEXT


def test_the_limit_applies_to_all_snappy_blocks_together() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"x" * 600))
    framed = struct.pack(">i", len(block)) + block
    assert decompress(Codec.SNAPPY, XERIAL_HEADER + framed, 1_000) == b"x" * 600
    twice = XERIAL_HEADER + framed + framed
    assert error_code_of(Codec.SNAPPY, twice, 1_000) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1])
def test_a_snappy_block_with_an_invalid_length_is_corrupt(length: int) -> None:
    frame = XERIAL_HEADER + struct.pack(">i", length) + b"abc"
    assert error_code_of(Codec.SNAPPY, frame) is ErrorCode.CORRUPT_MESSAGE


def test_a_raw_snappy_block_of_gigabytes_is_rejected_unread() -> None:
    assert error_code_of(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f abc") is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_all_kinds_of_lz4_frames_are_decompressed(
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


def test_lz4_frames_have_independent_blocks_for_java() -> None:
    frame = compress(Codec.LZ4, TEXT)
    assert lz4.frame.decompress(frame) == TEXT
    assert not lz4.frame.get_frame_info(frame)["block_linked"]


def test_zstd_frames_without_a_content_size_are_decompressed() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    frame = compressor.compress(TEXT)
    assert zstandard.frame_content_size(frame) == -1
    assert decompress(Codec.ZSTD, frame, len(TEXT)) == TEXT
    stream = compressor.compressobj()
    assert decompress(Codec.ZSTD, stream.compress(TEXT) + stream.flush(), len(TEXT)) == TEXT


def test_other_libraries_decompress_our_frames() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_a_wrong_size_in_a_gzip_trailer_is_only_a_hint() -> None:
    several = gzip.compress(TEXT) + gzip.compress(b"x")
    assert decompress(Codec.GZIP, several, len(TEXT) + 1) == TEXT + b"x"
