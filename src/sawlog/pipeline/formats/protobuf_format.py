"""Protobuf messages of one type to columns, with the descriptors of a file.

Options: `schema`, the descriptor set in base64, and `message`, the full name of the message; the
name may be left out if the last file of the set has one message. Fields that the descriptors lack
are ignored.
"""

import base64
from collections.abc import Iterator

import pyarrow as pa

from sawlog.pipeline.formats.column_fit import fit_columns
from sawlog.pipeline.formats.decoded import kept_rows, parsed_rows, without_rows
from sawlog.pipeline.formats.parsed import Format, FormatError, Parsed, check_options
from sawlog.pipeline.formats.protobuf_decoder import ProtobufDecoder, message_of_file
from sawlog.pipeline.formats.spark_types import plain_schema


class ProtobufParser:
    """Reads values that are one message each."""

    def __init__(self, format_: Format, known: pa.Schema | None) -> None:
        self._decoder = file_decoder(format_)
        self._columns = plain_schema(known) if known else self._decoder.columns

    def __call__(self, values: pa.Array) -> Iterator[Parsed]:
        sent = values.to_pylist()
        bad = {row: "no value" for row, value in enumerate(sent) if value is None}
        places = kept_rows(len(sent), bad)
        decoded = self._decoder.decode([sent[row] for row in places.tolist()])
        bad |= {int(places[at]): reason for at, reason in decoded.bad.items()}
        places = kept_rows(len(sent), bad)
        batch, misfits = fit_columns(decoded.rows, self._columns, strict=False)
        bad |= {int(places[at]): reason for at, reason in misfits.items()}
        yield parsed_rows(without_rows(batch, misfits), bad, len(sent))


def file_decoder(format_: Format) -> ProtobufDecoder:
    """The decoder of a message of a descriptor file. Raises FormatError."""
    check_options(format_, {"schema": None, "message": None, "encoding": ("plain",)})
    if "schema" not in format_.options:
        raise FormatError("format protobuf needs a descriptor set")
    data = base64.b64decode(format_.options["schema"])
    return ProtobufDecoder(message_of_file(data, format_.options.get("message", "")))
