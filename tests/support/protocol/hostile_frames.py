"""Hostile frames: random bytes, mutated requests, wrong counts.

All frames come from a seeded Random, so that failures can be repeated.
"""

import struct
from random import Random

from sawlog.protocol.apis import (
    ApiKey,
    first_flexible_version,
    request_class,
    request_header_version,
    valid_versions,
)
from sawlog.protocol.codec import encode
from sawlog.protocol.headers import RequestHeader, write_request_header
from support.protocol.messages import random_message

# What changes the cluster for good is only sent bent: a broker may rightly obey it.
READ_ONLY = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.PRODUCE,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
)
LYING_COUNTS = (-2, -1, 0x7FFFFFFF, 0x7FFFFFFE, 0x10000000, 0x00FFFFFF, -0x80000000)
LYING_VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 10,
    b"\x80" * 20,
    b"\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x10",
)


def header(random: Random, api: ApiKey, version: int) -> bytes:
    fields = RequestHeader(api, version, random.getrandbits(31), random.choice(["", "x", "y" * 99]))
    return write_request_header(fields, request_header_version(api, version))


def real_request(random: Random) -> bytes:
    """Return a valid frame with extreme values."""
    api = random.choice(READ_ONLY)
    first, last = valid_versions(api)
    version = random.randint(first, last)
    message = random_message(request_class(api), version, random)
    for field in ("max_wait_ms", "timeout_ms"):
        if hasattr(message, field):
            setattr(message, field, random.choice([0, 1, -1]))
    return header(random, api, version) + encode(message, version)


def bent(random: Random, frame: bytes) -> bytes:
    """Return a frame with some bytes flipped, removed, doubled or inserted."""
    bytes_ = bytearray(frame)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        where = random.randrange(len(bytes_) + 1)
        match random.randrange(5):
            case 0 if where < len(bytes_):
                bytes_[where] ^= 1 << random.randrange(8)
            case 1:
                del bytes_[where : where + random.randrange(1, 9)]
            case 2:
                bytes_[where:where] = random.randbytes(random.randrange(1, 9))
            case 3:
                bytes_[where : where + 4] = struct.pack(">i", random.choice(LYING_COUNTS))
            case _:
                bytes_[where:where] = random.choice(LYING_VARINTS)
    return bytes(bytes_)


def lying(random: Random) -> bytes:
    """Return a header, and a count or length far beyond the frame."""
    api = random.choice(READ_ONLY)
    first, last = valid_versions(api)
    version = random.randint(first, last)
    filler = random.randbytes(random.randrange(8)) + bytes(random.randrange(8))
    if version >= first_flexible_version(api):
        lie = random.choice(LYING_VARINTS)
    else:
        lie = struct.pack(">i", random.choice(LYING_COUNTS))
    return header(random, api, version) + filler * random.randrange(2) + lie * random.randint(1, 50)


def any_frame(random: Random) -> bytes:
    """Return a hostile frame with a correct or a wrong length."""
    match random.randrange(10):
        case 0:
            return random.randbytes(random.randrange(200))  # not a frame
        case 1:
            frame = random.randbytes(random.randrange(300))
        case 2 | 3:
            frame = lying(random)
        case 4:
            frame = real_request(random)
        case _:
            frame = bent(random, real_request(random))
    length = len(frame)
    if random.random() < 0.1:
        length = random.choice([-1, 0, 1, length // 2, length + 1, 0x7FFFFFFF, 104_857_601])
    return struct.pack(">i", length) + frame
