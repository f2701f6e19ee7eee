"""A data file between the task that wrote it and the commit that adds it to a table."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa

from sawlog.pipeline.delta.delta_log import Action, ActiveFile, DeltaLog
from sawlog.pipeline.delta.delta_types import from_json, to_json
from sawlog.pipeline.delta.table_storage import TableStorage

PREFIX = "sawlog-"  # prefix of our data files; vacuum deletes no others
_SAFE = "/=-_.~!$&'()*+,;:@"  # allowed in a URL path


class DataFile(NamedTuple):
    path: str  # relative, URL-encoded as Delta requires
    size: int
    rows: int
    partition_values: Mapping[str, str | None]
    stats: str  # Delta's statistics as JSON
    schema: pa.Schema  # of the file, partition columns included

    def to_json(self) -> str:
        """Encode the file for the row in which a task reports it to the driver."""
        fields: dict[str, Any] = self._asdict()
        fields["schema"] = to_json(self.schema)
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "DataFile":
        fields = json.loads(text)
        fields["schema"] = from_json(fields["schema"])
        return cls(**fields)


def encode_path(path: str) -> str:
    """Encode a file system path as the log stores it."""
    return quote(path, safe=_SAFE)


def decode_path(path: str) -> str:
    """Decode a path of the log to a file system path."""
    return unquote(path)


def add_action(file: DataFile, now_ms: int, *, data_change: bool = True) -> Action:
    return {
        "add": {
            "path": file.path,
            "partitionValues": dict(file.partition_values),
            "size": file.size,
            "modificationTime": now_ms,
            "dataChange": data_change,
            "stats": file.stats,
        }
    }


def remove_action(file: ActiveFile, now_ms: int, *, data_change: bool = True) -> Action:
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition_values),
            "size": file.size,
        }
    }


def delete_uncommitted(storage: TableStorage, files: Iterable[DataFile]) -> None:
    """Delete files that will not be committed.

    Files that the log mentions stay: a commit that seemed to fail may have succeeded.
    """
    unwanted = list(files)
    if not unwanted:
        return
    snapshot = DeltaLog(storage).snapshot()
    for file in unwanted:
        if file.path not in snapshot.files and file.path not in snapshot.tombstones:
            storage.delete(decode_path(file.path))
