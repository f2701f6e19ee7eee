"""The lines of JSON between the broker and the process of its log cleaner."""

import json
from dataclasses import asdict

from sawlog.storage.cleaner.batch_filter import CleanerStats
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure
from sawlog.storage.cleaner.segment_cleaner import (
    CleanRequest,
    CleanResult,
    MapRequest,
    MapResult,
)
from sawlog.storage.open_transactions import AbortedTransaction

Request = MapRequest | CleanRequest
Result = MapResult | CleanResult | CleanerFailure


def encode_request(request: Request) -> bytes:
    fields = asdict(request)
    if isinstance(request, CleanRequest):
        fields["last_offsets"] = list(request.last_offsets.items())  # JSON has no integer keys
        fields["last_epochs"] = list(request.last_epochs.items())
    return _line(request, fields)


def decode_request(line: bytes) -> Request:
    kind, fields = json.loads(line)
    fields["segments"] = tuple(fields["segments"])
    fields["aborted"] = tuple(AbortedTransaction(*entry) for entry in fields["aborted"])
    if kind == MapRequest.__name__:
        return MapRequest(**fields)
    fields["last_offsets"] = dict(fields["last_offsets"])
    fields["last_epochs"] = dict(fields["last_epochs"])
    return CleanRequest(**fields)


def encode_result(result: Result) -> bytes:
    return _line(result, asdict(result))


def decode_result(line: bytes) -> Result:
    kind, fields = json.loads(line)
    if kind == MapResult.__name__:
        return MapResult(**fields)
    if kind == CleanResult.__name__:
        return CleanResult(CleanerStats(**fields["stats"]))
    return CleanerFailure(**fields)


def _line(message: Request | Result, fields: dict[str, object]) -> bytes:
    return json.dumps([type(message).__name__, fields]).encode() + b"\n"
