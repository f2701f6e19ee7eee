"""Checks that an object store can keep tables: it creates a name for exactly one of many writers.

Stores that ignore the condition of a PUT answer all of them with success, and older versions of
some have several winners now and then. Their tables would lose and duplicate commits.
"""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from sawlog.pipeline.delta.errors import UnsupportedStorage
from sawlog.pipeline.delta.table_storage import TableStorage

PROBE_DIRECTORY = "_sawlog_probe"
WRITERS = 16


def probe(storage: TableStorage) -> None:
    """Race 16 writers for one name, and delete it.

    Raises UnsupportedStorage unless exactly one of them wins and its bytes are stored, and OSError
    if the store refuses requests.
    """
    path = f"{PROBE_DIRECTORY}/{uuid4().hex}"
    contents = [f"{writer} {uuid4().hex}".encode() for writer in range(WRITERS)]
    try:
        with ThreadPoolExecutor(WRITERS) as threads:
            wins = list(threads.map(lambda data: storage.put_if_absent(path, data), contents))
        stored = storage.read(path)
    finally:
        storage.delete(path)
    winners = [data for data, won in zip(contents, wins, strict=True) if won]
    if winners != [stored]:
        raise UnsupportedStorage(
            f"{storage.root}: of {WRITERS} writers that created one object at once, {len(winners)}"
            " were told that they were first; the store needs atomic conditional writes"
            " (If-None-Match: *), without which commits would be lost. Use another store, or a"
            " newer version of it"
        )
