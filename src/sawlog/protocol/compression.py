"""Compression and decompression of record batches, in the framing that Kafka's clients use.

Decompression never allocates much more than `limit` bytes, whatever the data claims. Invalid data
raises KafkaError.
"""

import struct
from collections.abc import Callable
from enum import IntEnum

import cramjam

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import Buffer


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024  # what snappy-java writes
_CHUNK_LENGTH = struct.Struct(">i")
_GZIP_LEVEL = 6
_GZIP_DEFAULT = -1
_LZ4_DEFAULT = 9  # Kafka's default level means the fast compressor, not level 9 of the other one
_LZ4_FAST_LEVEL = 1
_LZ4_LOWEST_LEVEL = 2
_ZSTD_LEVEL = 3
_GZIP_TRAILER_BYTES = 4
_FIRST_GUESS_FACTOR = 4
_MIN_GUESS_BYTES = 16 * 1024
_GROWTH = 4
_NO_ROOM = "failed to write whole buffer"  # cramjam's message when the output buffer is full


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` with the codec, at one of Kafka's levels (KIP-390) or its default level."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        is_default = level is None or level == _GZIP_DEFAULT
        return bytes(cramjam.gzip.compress(data, _GZIP_LEVEL if is_default else level))
    if codec == Codec.SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == Codec.LZ4:
        # Kafka's Java reader rejects frames with linked blocks.
        compressor = cramjam.lz4.Compressor(
            level=_lz4_level(level), content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL if level is None else level))
    raise _unknown(codec)


def _lz4_level(level: int | None) -> int:
    """The level of the LZ4 library. All levels but the default are its high compression, whose
    lowest level is 2; above 12 nothing changes."""
    if level is None or level == _LZ4_DEFAULT:
        return _LZ4_FAST_LEVEL
    return max(level, _LZ4_LOWEST_LEVEL)


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Decompress `data`: MESSAGE_TOO_LARGE beyond `limit` bytes, CORRUPT_MESSAGE if it is
    invalid."""
    if codec == Codec.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == Codec.GZIP:
        return _grow(cramjam.gzip.decompress_into, data, limit, _gzip_guess(data))
    if codec == Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == Codec.LZ4:
        return _grow(cramjam.lz4.decompress_into, data, limit, len(data) * _FIRST_GUESS_FACTOR)
    if codec == Codec.ZSTD:
        return _grow(cramjam.zstd.decompress_into, data, limit, len(data) * _FIRST_GUESS_FACTOR)
    raise _unknown(codec)


def _gzip_guess(data: Buffer) -> int:
    """Return the size in the gzip trailer, modulo 2^32: an untrusted hint."""
    return int.from_bytes(data[-_GZIP_TRAILER_BYTES:], "little")


def _grow(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int, guess: int
) -> bytes:
    """Decompress into a buffer that starts at a guess and grows up to the limit."""
    size = min(limit, max(guess, _MIN_GUESS_BYTES))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise _corrupt(str(error)) from None
            if size >= limit:
                raise _too_large(limit) from None
            size = min(limit, size * _GROWTH)
        else:
            return bytes(memoryview(output)[:written])


def _compress_snappy(data: memoryview) -> bytes:
    """Compress in Xerial framing: a header, then blocks of raw snappy with their lengths."""
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces.append(_CHUNK_LENGTH.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    """Decompress Xerial framing, or one raw block as librdkafka writes it."""
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_block(data, limit, limit)
    pieces: list[bytes] = []
    remaining = limit
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _CHUNK_LENGTH.size:
            raise _corrupt("the length of a snappy block is truncated")
        (length,) = _CHUNK_LENGTH.unpack_from(data, position)
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams may be concatenated
            continue
        position += _CHUNK_LENGTH.size
        if not 0 < length <= len(data) - position:
            raise _corrupt(
                f"a snappy block has {length} bytes, but {len(data) - position} are left"
            )
        pieces.append(_decompress_block(data[position : position + length], remaining, limit))
        remaining -= len(pieces[-1])
        position += length
    return b"".join(pieces)


def _decompress_block(block: memoryview, remaining: int, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > remaining:
            raise _too_large(limit)
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise _corrupt(str(error)) from None
    return bytes(memoryview(output)[:written])


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be decompressed: {reason}")


def _too_large(limit: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"the records decompress to more than {limit} bytes"
    )


def _unknown(codec: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"unknown codec {codec}: expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
    )
