"""Produce: batches whose records the broker reads: their structure, keys and timestamps."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from sawlog.protocol.compression import Codec, compress
from sawlog.protocol.varint import encode_varint
from support.protocol.batches import raw_batch, raw_record
from transcripts.scenarios.produce_errors import ACCEPTED, instead, refused
from transcripts.scenarios.produce_requests import TIME, produce, without_error_start_offsets
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

VERSION = 9
AHEAD_MS = 4_000_000_000_000
NO_TIMESTAMP = -1
KEY, NO_KEY = b"\x02k", b"\x01"


def rejected(reason: str, *positions: int) -> Differs:
    """Kafka accepts the batch; Sawlog does not, with errors of the records at `positions`."""
    words = "<words>"
    errors = [{"batch_index": each, "batch_index_error_message": words} for each in positions]
    listed = instead(reason, {"record_errors": errors})
    return Differs(reason, {**refused(reason, "INVALID_RECORD").values, **listed.values})


FAILS = rejected(KAFKA_FAILS)
LENGTHS = rejected("Kafka ignores the length of a record here")
NULLS = rejected("Kafka takes every negative length for null")
DELTAS = "Kafka appends, rewrites or fails at wrong offset deltas; Sawlog rejects them"
UNREAD = "Sawlog reads the records of such a batch only if its header is suspect"


class Fault(NamedTuple):
    """A body, and where Sawlog differs on the three topics that it is sent to."""

    title: str
    body: bytes
    count: int = 1
    differs: tuple[Differs | None, Differs | None, Differs | None] = (None, None, None)


def everywhere(differs: Differs) -> tuple[Differs, Differs, Differs]:
    return (differs, differs, differs)


def run(transcript: Transcript) -> None:
    structure(transcript)
    codecs(transcript)
    keys(transcript)
    timestamps(transcript)
    untrue_headers(transcript)


def structure(transcript: Transcript) -> None:
    """Kafka has three readers: for batches without compression, for those that keep their codec,
    and for those that are converted."""
    topics = (
        ("not compressed", Codec.NONE, {"cleanup_policy": "compact"}),
        ("gzip", Codec.GZIP, {"cleanup_policy": "compact,delete"}),
        ("gzip, to convert", Codec.GZIP, {"compression_type": "uncompressed"}),
    )
    faults = [*counts_and_lengths(), *fields(), *headers()]
    for place, (kind, codec, configs) in enumerate(topics):
        topic = f"validating-{place}"
        transcript.create_topic(topic, len(faults), **configs)
        for index, fault in enumerate(faults):
            records = packed(fault.body, codec, count=fault.count)
            request = produce(topic, records, index)
            ask(transcript, f"{kind}: {fault.title}", request, fault.differs[place])


def counts_and_lengths() -> Iterator[Fault]:
    one, two = raw_record(0), raw_record(1)
    yield Fault("two records", one + two, 2)
    yield Fault("no bytes for one record", b"")
    yield Fault("a count above the number of records", one, 2)
    yield Fault("a count below the number of records", one + two)
    yield Fault("a byte after the last record", one + b"\0")
    yield Fault("half of a second record", one + two[:4], 2)
    yield Fault("offset deltas from 1", two + raw_record(2), 2, everywhere(rejected(DELTAS, 0, 1)))
    yield Fault("the same offset delta twice", one + one, 2, everywhere(rejected(DELTAS, 1)))
    yield Fault("offset deltas in reverse", two + one, 2, everywhere(rejected(DELTAS, 0, 1)))
    yield Fault("a negative offset delta", raw_record(-1), 1, everywhere(rejected(DELTAS, 0)))
    unread = (None, LENGTHS, None)
    yield Fault("a length one too small", raw_record(0, length=-1), 1, unread)
    yield Fault("a length one too large", raw_record(0, length=1), 1, unread)
    yield Fault("a length that ends in the next record", raw_record(0, length=1) + two, 2, unread)
    yield Fault("a length of zero", b"\x00" + one[1:], 1, unread)
    yield Fault("a negative length", b"\x01" + one[1:], 1, unread)
    gigabyte = encode_varint(1 << 30) + one[1:]
    yield Fault("a length of a gigabyte", gigabyte, 1, (None, LENGTHS, FAILS))


def fields() -> Iterator[Fault]:
    one, two = raw_record(0), raw_record(1)
    yield Fault("a key length beyond the record", raw_record(0, key=encode_varint(60)))
    into = raw_record(0, key=encode_varint(8) + b"k") + two
    yield Fault("a key that ends in the next record", into, 2)
    yield Fault("a key length of -2", raw_record(0, key=encode_varint(-2)), 1, everywhere(NULLS))
    yield Fault("a value length beyond the record", raw_record(0, value=encode_varint(60)))
    minus = raw_record(0, value=encode_varint(-2))
    yield Fault("a value length of -2", minus, 1, everywhere(NULLS))
    yield Fault("a null value", raw_record(0, value=encode_varint(-1)))
    yield Fault("a length of eleven bytes", padded(11) + one[1:], 1, (FAILS, None, None))
    yield Fault("a timestamp delta of ten bytes", raw_record(0, timestamp=padded(10)))
    yield Fault("a timestamp delta of eleven bytes", raw_record(0, timestamp=padded(11)))
    yield Fault("an offset delta of five bytes", raw_record(padded(5)))
    yield Fault("an offset delta of six bytes", raw_record(padded(6)))
    yield Fault("a key length of six bytes", raw_record(0, key=padded(6)))
    yield Fault("record attributes", raw_record(0, attributes=0x7F))


def headers() -> Iterator[Fault]:
    yield Fault("one header", raw_record(0, headers=b"\x02\x02h\x02v"))
    yield Fault("a header with a null value", raw_record(0, headers=b"\x02\x02h\x01"))
    minus = raw_record(0, headers=b"\x02\x02h\x03")
    yield Fault("a header with a value length of -2", minus, 1, everywhere(NULLS))
    yield Fault("a header with a null key", raw_record(0, headers=b"\x02\x01\x02v"))
    yield Fault("a header key that is not UTF-8", raw_record(0, headers=b"\x02\x02\xff\x02v"))
    yield Fault("a negative number of headers", raw_record(0, headers=b"\x01"))
    yield Fault("more headers than bytes", raw_record(0, headers=encode_varint(50)))
    yield Fault("fewer headers than there are", raw_record(0, headers=b"\x00\x02h\x02v"))


def padded(size: int) -> bytes:
    """The number 0 as a varint of so many bytes."""
    return b"\x80" * (size - 1) + b"\x00"


def codecs(transcript: Transcript) -> None:
    transcript.create_topic("validating-codecs", 8, cleanup_policy="compact")
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        whole = compress(codec, raw_record(0))
        for place, body in enumerate((b"not compressed", whole[:-1])):
            records = bytes(raw_batch(body, attributes=codec, base_timestamp=TIME))
            title = f"{codec.name.lower()}: {('other bytes', 'a truncated body')[place]}"
            request = produce("validating-codecs", records, 2 * (codec - 1) + place)
            ask(transcript, title, request, rejected(KAFKA_FAILS))


def keys(transcript: Transcript) -> None:
    body = b"".join(raw_record(place, key=(KEY, NO_KEY)[place % 2]) for place in range(4))
    for place, policy in enumerate(("compact", "compact,delete")):
        topic = f"validating-keys-{place}"
        transcript.create_topic(topic, cleanup_policy=policy)
        for codec in (Codec.NONE, Codec.ZSTD):
            records = packed(body, codec, count=4)
            title = f"{policy}, {codec.name.lower()}: every second record without a key"
            ask(transcript, title, produce(topic, records))


def timestamps(transcript: Transcript) -> None:
    now = time.time_ns() // 1_000_000
    bounds = {"message_timestamp_before_max_ms": "1000000"}
    transcript.create_topic("validating-times", 2, **bounds)
    transcript.create_topic("validating-ahead", 2)
    transcript.create_topic("validating-both", 2, cleanup_policy="compact", **bounds)
    transcript.create_topic(
        "validating-append", 2, message_timestamp_type="LogAppendTime", **bounds
    )
    mixed = (now, TIME, NO_TIMESTAMP, AHEAD_MS, now - 500_000)
    for index, codec in enumerate((Codec.NONE, Codec.LZ4)):
        name = codec.name.lower()
        for topic in ("validating-times", "validating-ahead", "validating-append"):
            request = produce(topic, timed(*mixed, codec=codec), index)
            ask(transcript, f"{name}: some timestamps out of bounds", request)
        request = produce("validating-times", timed(now, now - 500_000, codec=codec), index)
        ask(transcript, f"{name}: timestamps within bounds", request)
        request = produce("validating-times", timed(now, NO_TIMESTAMP, codec=codec), index)
        ask(transcript, f"{name}: a record without a timestamp", request)
        keyless = timed(TIME, TIME, now, codec=codec, key=NO_KEY)
        request = produce("validating-both", keyless, index)
        ask(transcript, f"{name}: neither keys nor valid timestamps", request)
        request = produce("validating-both", timed(now, TIME, TIME, codec=codec), index)
        ask(transcript, f"{name}: keys, and invalid timestamps", request)


def untrue_headers(transcript: Transcript) -> None:
    """The maximum timestamp in the header is not that of the records."""
    unread = instead(UNREAD, {**ACCEPTED, "record_errors": []})
    for place, policy in enumerate(("delete", "compact")):
        topic = f"validating-headers-{place}"
        transcript.create_topic(topic, 4, cleanup_policy=policy)
        below = timed(TIME, TIME + 5, max_timestamp=TIME - 1)
        ask(transcript, f"{policy}: a maximum below the first", produce(topic, below))
        above = timed(TIME, TIME + 5, max_timestamp=AHEAD_MS)
        ask(transcript, f"{policy}: a maximum out of bounds", produce(topic, above, 1))
        within = timed(TIME, TIME + 5, max_timestamp=TIME + 9)
        ask(transcript, f"{policy}: a maximum too high", produce(topic, within, 2))
        hidden = timed(TIME, AHEAD_MS, max_timestamp=TIME)
        differs = unread if policy == "delete" else None
        ask(
            transcript,
            f"{policy}: a maximum that hides another",
            produce(topic, hidden, 3),
            differs,
        )


def packed(body: bytes, codec: Codec = Codec.NONE, **header: int) -> bytes:
    """A batch of this body at the time of the scenarios."""
    times = {"base_timestamp": TIME, "max_timestamp": TIME}
    last = {"last_offset_delta": header["count"] - 1}
    return bytes(raw_batch(compress(codec, body), attributes=codec, **times, **last, **header))


def timed(
    *times: int, codec: Codec = Codec.NONE, key: bytes = KEY, max_timestamp: int | None = None
) -> bytes:
    """A batch of records with these timestamps."""
    body = b"".join(
        raw_record(place, timestamp=at - times[0], key=key) for place, at in enumerate(times)
    )
    return bytes(
        raw_batch(
            compress(codec, body),
            attributes=codec,
            count=len(times),
            last_offset_delta=len(times) - 1,
            base_timestamp=times[0],
            max_timestamp=max(times) if max_timestamp is None else max_timestamp,
        )
    )


def ask(
    transcript: Transcript, title: str, request: dict[str, Any], differs: Differs | None = None
) -> None:
    keep = without_error_start_offsets
    transcript.request(title, "Produce", VERSION, request, keep=keep, differs=differs)
