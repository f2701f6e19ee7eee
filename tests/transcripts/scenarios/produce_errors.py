"""Produce: batches with one error each."""

import gzip
import struct
from collections.abc import Mapping
from typing import Any

from support.protocol.batches import raw_batch
from transcripts.scenarios.produce_requests import TIME, batch, produce, without_error_start_offsets
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

CONTROL, TRANSACTIONAL, APPEND_TIME = 0x20, 0x10, 0x08
PLACE = "responses.0.partition_responses.0"
ACCEPTED = {"error_code": "NONE", "base_offset": 0, "log_start_offset": 0, "error_message": None}
OPAQUE = "Sawlog does not decode the records of a batch"


def instead(reason: str, values: Mapping[str, Any]) -> Differs:
    """A difference in the only partition of the response."""
    return Differs(reason, {f"{PLACE}.{key}": value for key, value in values.items()})


def refused(reason: str, code: str) -> Differs:
    words = {"base_offset": -1, "log_start_offset": "<any>", "error_message": "<words>"}
    return instead(reason, {"error_code": code, **words})


ONE_BATCH = refused("Kafka ignores bytes after the batch", "INVALID_RECORD")
ONE_BATCH_FIRST = refused("Sawlog checks the number of batches first", "INVALID_RECORD")
OPAQUE_RECORDS = instead(OPAQUE, ACCEPTED)
NO_CODEC = refused(KAFKA_FAILS, "UNSUPPORTED_COMPRESSION_TYPE")
NOT_OURS = refused("Kafka clears the bit; Sawlog does not change batches", "INVALID_TIMESTAMP")


class Trial:
    """Sends each batch to a new topic, so that steps are independent."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._count = 0

    def send(
        self,
        title: str,
        records: bytes | bytearray,
        version: int = 9,
        differs: Differs | None = None,
    ) -> None:
        request = produce(self._topic(), bytes(records))
        keep = without_error_start_offsets
        self._transcript.request(title, "Produce", version, request, keep=keep, differs=differs)

    def send_null(self, version: int) -> None:
        request = produce(self._topic(), None)
        reason = "Kafka's handler fails and never answers"
        differs = Differs(reason, {"": self._null_answer(version)})
        self._transcript.request_unanswered_by_kafka(
            "null records", "Produce", version, request, differs
        )

    def _topic(self) -> str:
        self._count += 1
        name = f"refusals-{self._count}"
        self._transcript.create_topic(name)
        return name

    def _null_answer(self, version: int) -> dict[str, Any]:
        partition: dict[str, Any] = {
            "index": 0,
            "error_code": "INVALID_RECORD",
            "base_offset": -1,
            "log_append_time_ms": -1,
        }
        if version >= 8:
            partition |= {"log_start_offset": 0, "record_errors": [], "error_message": "<words>"}
        topic = {"name": f"refusals-{self._count}", "partition_responses": [partition]}
        return {"responses": [topic], "throttle_time_ms": 0}


def run(transcript: Transcript) -> None:
    trial = Trial(transcript)
    broken_batches(trial)
    old_formats(trial)
    invalid_headers(trial)
    invalid_records(trial)
    for version in (3, 8):
        trial.send_null(version)


def broken_batches(trial: Trial) -> None:
    good = batch("a", "b")
    for version in (3, 8, 12):
        trial.send("empty records", b"", version)
        trial.send("a wrong checksum", raw_batch(crc=1), version)
    trial.send("a batch cut in its header", good[:40])
    trial.send("a batch cut in its records", good[:-1])
    trial.send("a batch and one more byte", good + b"\0", differs=ONE_BATCH)
    trial.send("a batch and half of another", good + good[:30], differs=ONE_BATCH)
    trial.send("two batches", good + good)
    trial.send("a length of zero", raw_batch(length=0))
    trial.send("a negative length", raw_batch(length=-1))
    trial.send("a length below the size", raw_batch(length=40), differs=ONE_BATCH_FIRST)
    trial.send("a length above the size", raw_batch(length=1_000_000))
    trial.send("a base offset other than zero", raw_batch(base_offset=77))
    trial.send("a leader epoch other than -1", raw_batch(leader_epoch=5))


def old_formats(trial: Trial) -> None:
    for magic in (0, 1):
        trial.send(f"magic {magic} with a header of magic 2", raw_batch(magic=magic))
        stamp = struct.pack(">q", TIME) if magic else b""
        body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">ii1s", -1, 1, b"x")
        message = struct.pack(">I", 0) + body
        old = struct.pack(">qi", 0, len(message)) + message
        for version in (3, 9):
            trial.send(f"a message of magic {magic}", old, version)
    for magic in (3, -1):
        trial.send(f"magic {magic}", raw_batch(magic=magic))


def invalid_headers(trial: Trial) -> None:
    trial.send("a batch without records", raw_batch(b"", count=0, last_offset_delta=-1))
    trial.send("a count of zero", raw_batch(count=0))
    trial.send("a negative count", raw_batch(count=-1))
    trial.send("a count above the number of records", raw_batch(count=2))
    trial.send("more offsets than records", raw_batch(last_offset_delta=5))
    trial.send("fewer offsets than records", raw_batch(count=1, last_offset_delta=-1))
    trial.send("the control bit", raw_batch(attributes=CONTROL))
    bare = raw_batch(attributes=TRANSACTIONAL)
    trial.send("a transactional batch without a producer id", bare)
    trial.send("a sequence without a producer id", raw_batch(base_sequence=3))
    trial.send("an epoch without a producer id", raw_batch(producer_epoch=3))
    trial.send("the LogAppendTime bit", raw_batch(attributes=APPEND_TIME), differs=NOT_OURS)
    trial.send("unused attribute bits", raw_batch(attributes=0x4000))
    for codec in (5, 6, 7):
        trial.send(
            f"codec {codec}, which is unknown", raw_batch(attributes=codec), differs=NO_CODEC
        )
    trial.send("a timestamp below -1", batch("a", at=-5))


def invalid_records(trial: Trial) -> None:
    misplaced = b"\x0e\x00\x00\x02\x01\x02x\x00"  # one record with offset delta 1 instead of 0
    trial.send("a wrong offset delta", raw_batch(misplaced))
    trial.send("invalid records", raw_batch(b"\xff" * 10), differs=OPAQUE_RECORDS)
    longer = raw_batch(b"\x0c\x00\x00\x00\x01\x00\x00" + b"\0\0")
    trial.send("bytes after the last record", longer, differs=OPAQUE_RECORDS)
    garbage = raw_batch(b"not compressed", attributes=1)
    trial.send("invalid gzip", garbage, differs=OPAQUE_RECORDS)
    wrong = raw_batch(gzip.compress(b"no records"), attributes=1)
    trial.send("gzip of invalid records", wrong, differs=OPAQUE_RECORDS)
    trial.send("a wrong max timestamp", raw_batch(max_timestamp=99))
