"""Data files as versions of Sawlog wrote them that kept partition columns in the log alone."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.table import Table


def make_old(table: Table) -> None:
    """Rewrite the files of a table without partition columns, and forget checkpoints."""
    log = Path(table.path) / "_delta_log"
    sizes: dict[str, int] = {}
    for file in table.files():
        path = Path(table.storage.full(decode_path(file.path)))
        found = pq.read_table(path, partitioning=None)
        pq.write_table(found.drop_columns(table.partition_columns), path)
        sizes[file.path] = path.stat().st_size
    for entry in log.glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            if "add" in action and action["add"]["path"] in sizes:
                action["add"]["size"] = sizes[action["add"]["path"]]
        entry.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checkpoint in [*log.glob("*.checkpoint.parquet"), *log.glob("_last_checkpoint")]:
        checkpoint.unlink()
