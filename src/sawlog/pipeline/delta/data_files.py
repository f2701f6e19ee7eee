"""A data file between the task that wrote it and the commit that makes it part of a table."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa

from sawlog.pipeline.delta.delta_log import Action, ActiveFile, DeltaLog
from sawlog.pipeline.delta.delta_types import from_json, to_json
from sawlog.pipeline.delta.table_storage import Storage

PREFIX = "sawlog-"  # begins the names of our data files: the sweep touches no others
_SAFE = "/=-_.~!$&'()*+,;:@"  # what may stand in the path of a URL


class DataFile(NamedTuple):
    path: str  # relative, quoted as Delta wants it
    size: int
    rows: int
    partition_values: Mapping[str, str | None]
    stats: str  # Delta's statistics, JSON
    schema: pa.Schema  # of the columns in the file, so without those of the partitions

    def to_json(self) -> str:
        """For the row by which a task tells the driver of its file."""
        fields: dict[str, Any] = self._asdict()
        fields["schema"] = to_json(self.schema)
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "DataFile":
        fields = json.loads(text)
        fields["schema"] = from_json(fields["schema"])
        return cls(**fields)


def encode_path(path: str) -> str:
    """A path of the file system as the log spells it."""
    return quote(path, safe=_SAFE)


def decode_path(path: str) -> str:
    """A path of the log as the file system spells it."""
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


def delete_uncommitted(storage: Storage, files: Iterable[DataFile]) -> None:
    """Deletes files that will not become part of the table. One that its log knows stays: a commit
    that seemed to fail may have been carried out.
    """
    unwanted = list(files)
    if not unwanted:
        return
    snapshot = DeltaLog(storage).snapshot()
    for file in unwanted:
        if file.path not in snapshot.files and file.path not in snapshot.tombstones:
            storage.delete(decode_path(file.path))
