"""Produce: batches that the broker changes (codec, timestamps), as Fetch returns them."""

from typing import Any

from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record, build_batch
from transcripts.scenarios.fetch import fetch, partition
from transcripts.scenarios.produce_requests import TIME, batch, produce, without_error_start_offsets
from transcripts.scenarios.produce_validation import AHEAD_MS, timed
from transcripts.transcript import Transcript

VERSION = 9
TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
PRODUCER = {"producer_id": 7_000, "producer_epoch": 3, "base_sequence": 0}


def run(transcript: Transcript) -> None:
    for name in TYPES:
        codecs(transcript, name)
    levels(transcript)
    sizes(transcript)
    append_time(transcript)
    true_maximum(transcript)


def codecs(transcript: Transcript, name: str) -> None:
    """A batch of every codec to a topic with one, with a producer whose sequences go on."""
    topic = f"converting-{name}"
    transcript.create_topic(topic, compression_type=name)
    records = [
        Record(0, TIME + 7, b"k", b"value", (("h", b"1"), ("h", None))),
        Record(0, TIME, None, None),
        Record(0, TIME + 9, b"", b"x" * 300),
    ]
    for count, codec in enumerate(Codec):
        sequence = {**PRODUCER, "base_sequence": count * len(records)}
        request = produce(topic, bytes(build_batch(records, codec=codec, **sequence)))
        ask(transcript, f"{codec.name.lower()} to {name}", request)
    again = produce(topic, bytes(build_batch(records, codec=Codec.GZIP, **PRODUCER)))
    ask(transcript, f"a duplicate in another codec to {name}", again)
    transcript.request(f"everything in {name}", "Fetch", 11, fetch(topic))


def levels(transcript: Transcript) -> None:
    for name, level in (("gzip", "9"), ("lz4", "17"), ("zstd", "-5")):
        topic = f"converting-level-{name}"
        level_config = {f"compression_{name}_level": level}
        transcript.create_topic(topic, compression_type=name, **level_config)
        ask(transcript, f"{name} at level {level}", produce(topic, batch("a" * 500, "b" * 500)))
        transcript.request(f"everything in {name}", "Fetch", 11, fetch(topic))


def sizes(transcript: Transcript) -> None:
    limit = {"max_message_bytes": "200"}
    transcript.create_topic("converting-larger", compression_type="uncompressed", **limit)
    for count in (130, 131, 5_000):
        request = produce("converting-larger", batch("x" * count, codec=Codec.GZIP))
        ask(transcript, f"{count} letters, not compressed any more, limit 200", request)
    transcript.create_topic("converting-smaller", compression_type="gzip", **limit)
    for count in (130, 131, 5_000):
        request = produce("converting-smaller", batch("x" * count))
        ask(transcript, f"{count} letters, not compressed yet, limit 200", request)
    segment = {"segment_bytes": str(1 << 20), "max_message_bytes": "2000000"}
    transcript.create_topic("converting-segment", compression_type="uncompressed", **segment)
    for codec in (Codec.NONE, Codec.ZSTD):
        request = produce("converting-segment", batch("x" * 1_100_000, codec=codec))
        ask(transcript, f"{codec.name.lower()}: 1100000 letters, segment.bytes=1048576", request)
    transcript.create_topic("converting-exact", max_message_bytes="70", compression_type="zstd")
    request = produce("converting-exact", batch("ab"))
    ask(transcript, "70 bytes that grow by compression, limit 70", request)


def append_time(transcript: Transcript) -> None:
    """The timestamps of the records do not matter, the rest of the validation does."""
    configs = {"message_timestamp_type": "LogAppendTime", "cleanup_policy": "compact"}
    topic = "converting-append"
    transcript.create_topic(topic, compression_type="lz4", **configs)
    old = produce(topic, batch("a", "b", at=1_000, key=b"k", codec=Codec.ZSTD))
    ask(transcript, "LogAppendTime in another codec", old)
    ahead = produce(topic, batch("a", at=AHEAD_MS, key=b"k", codec=Codec.LZ4))
    ask(transcript, "LogAppendTime in the same codec", ahead)
    ask(transcript, "LogAppendTime, no key", produce(topic, batch("a", codec=Codec.ZSTD)))
    transcript.request("everything with LogAppendTime", "Fetch", 11, fetch(topic))


def true_maximum(transcript: Transcript) -> None:
    """The broker corrects the maximum timestamp of the header."""
    transcript.create_topic("converting-times", 3, cleanup_policy="compact")
    for index, maximum in enumerate((TIME - 1, TIME + 1, AHEAD_MS)):
        records = timed(TIME, TIME + 5, TIME + 3, max_timestamp=maximum)
        ask(transcript, f"maximum {maximum}", produce("converting-times", records, index))
        request = fetch("converting-times", partition(index=index))
        transcript.request(f"the batch with maximum {maximum}", "Fetch", 11, request)


def ask(transcript: Transcript, title: str, request: dict[str, Any]) -> None:
    keep = without_error_start_offsets
    transcript.request(title, "Produce", VERSION, request, keep=keep)
