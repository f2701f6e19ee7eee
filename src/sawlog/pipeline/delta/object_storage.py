"""A table in an object store: S3 and compatible ones, Google Cloud Storage, Azure.

A log entry is created by a conditional PUT. Such a request may be retried after it has succeeded,
by the library or here, and is then told that the name exists; so the entry is read back, and the
same bytes mean that this writer created it. Data files are uploaded in parts while they are written
and appear when they are complete. A completed PUT is durable.
"""

import errno
import os
import random
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from sawlog.pipeline.delta.errors import StoreUnavailable, UnsupportedStorage
from sawlog.pipeline.delta.store_clients import Store, delta_options, store_client
from sawlog.pipeline.delta.table_path import TablePath, parse_url
from sawlog.pipeline.delta.table_storage import StoredFile

PART_BYTES = 5 * 1024 * 1024  # the least that S3 accepts for a part of an upload
PARALLEL_PARTS = 1  # uploaded while the next one is filled
PUT_ATTEMPTS = 10
_MAX_BACKOFF_S = 2.0
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_URL = re.compile(r"\S*://\S*")
_HOST = re.compile(r"^Generic .*?://(?:[^/@\s]*@)?([^/@\s]+)")
_NOT_SENT = "error sending request"
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')  # of the operating system, DNS or TLS


class ObjectReader:
    """The file object of one object for Arrow: each read is a ranged GET."""

    def __init__(self, store: Store, key: str, size: int, full: str) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._full = full
        self._position = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        left = max(0, self._size - self._position)
        wanted = left if count is None or count < 0 else min(count, left)
        if not wanted:
            return b""
        with store_errors(self._full):
            found = obstore.get_range(
                self._store, self._key, start=self._position, length=wanted
            ).to_bytes()
        self._position += len(found)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class ObjectUpload:
    """An object being written; implements OutputFile.

    Small objects are one PUT, larger ones are uploaded in parts. An upload that is aborted, or
    whose process dies, leaves no object; S3 keeps the parts until a lifecycle rule deletes them.
    """

    def __init__(self, store: Store, key: str, full: str) -> None:
        self._full = full
        self._written = 0
        self._writer: Any = obstore.open_writer(
            store, key, buffer_size=PART_BYTES, max_concurrency=PARALLEL_PARTS
        )
        self.closed = False

    @property
    def sink(self) -> "ObjectUpload":
        return self

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        with store_errors(self._full):
            self._writer.write(data)
        self._written += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing to do: `close` sends what is left."""

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with store_errors(self._full):
                self._writer.close()

    def abort(self) -> None:
        self.closed = True
        self._writer = None


class ObjectStorage:
    """Implements TableStorage."""

    max_open_files = 16  # two parts of each are in memory
    has_ascii_names = True  # Polars 2.1 encodes other characters twice

    def __init__(self, root: TablePath) -> None:
        try:
            self._url = parse_url(root)
        except ValueError as error:
            raise UnsupportedStorage(str(error)) from None
        self.root = TablePath(str(self._url), root.options)

    def __repr__(self) -> str:
        return f"ObjectStorage({str(self.root)!r})"

    @property
    def _store(self) -> Store:
        return store_client(self._url, self.root.options)

    def _key(self, path: str) -> str:
        return f"{self._url.prefix}/{path}" if self._url.prefix else path

    def _relative(self, key: str) -> str:
        return key.removeprefix(f"{self._url.prefix}/") if self._url.prefix else key

    def full(self, path: str) -> str:
        return f"{self.root}/{path}"

    def read(self, path: str) -> bytes:
        with store_errors(self.full(path)):
            return obstore.get(self._store, self._key(path)).bytes().to_bytes()

    def stat(self, path: str) -> StoredFile | None:
        try:
            with store_errors(self.full(path)):
                found = obstore.head(self._store, self._key(path))
        except FileNotFoundError:
            return None
        return StoredFile(path, found["size"], int(found["last_modified"].timestamp() * 1_000))

    def names(self, directory: str) -> list[str]:
        with store_errors(self.full(directory)):
            found = obstore.list_with_delimiter(self._store, self._key(directory))
        keys = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return [key.rstrip("/").rpartition("/")[2] for key in keys]

    def walk(self) -> Iterator[StoredFile]:
        with store_errors(self.root):
            for chunk in obstore.list(self._store, self._url.prefix or None):
                for found in chunk:
                    yield StoredFile(
                        self._relative(found["path"]),
                        found["size"],
                        int(found["last_modified"].timestamp() * 1_000),
                    )

    def open_input(self, path: str) -> pa.NativeFile:
        full = self.full(path)
        with store_errors(full):
            size = obstore.head(self._store, self._key(path))["size"]
        return pa.PythonFile(ObjectReader(self._store, self._key(path), size, full), "r")

    def open_output(self, path: str) -> ObjectUpload:
        return ObjectUpload(self._store, self._key(path), self.full(path))

    def delete(self, path: str) -> None:
        try:
            with store_errors(self.full(path)):
                obstore.delete(self._store, self._key(path))
        except FileNotFoundError:
            return

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing to do: a completed PUT is durable."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        reason = ""
        for attempt in range(PUT_ATTEMPTS):
            try:
                with store_errors(self.full(path)):
                    obstore.put(self._store, self._key(path), data, mode="create")
            except FileExistsError as error:  # 412, or 409 for a request that met another
                reason = error.strerror or ""
            except StoreUnavailable as error:  # it may have succeeded
                reason = error.strerror or ""
            except FileNotFoundError:
                raise StoreUnavailable(
                    errno.ENOENT, f"there is no bucket {self._url.bucket!r}", self.full(path)
                ) from None
            else:
                return True
            found = self._read_or_none(path)
            if found is not None:
                return found == data
            time.sleep(random.uniform(0, min(_MAX_BACKOFF_S, 0.02 * 2**attempt)))
        raise StoreUnavailable(
            errno.EIO, f"{PUT_ATTEMPTS} attempts to create it failed: {reason}", self.full(path)
        )

    def put(self, path: str, data: bytes) -> None:
        with store_errors(self.full(path)):
            obstore.put(self._store, self._key(path), data)

    def delta_options(self) -> dict[str, str]:
        return delta_options(self._url.scheme, self.root.options)

    def _read_or_none(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except FileNotFoundError:
            return None


@contextmanager
def store_errors(full: str) -> Iterator[None]:
    """Convert errors of the library to OSError with the URL and a short reason.

    Their own text has whole requests and responses, which may contain credentials.
    """
    try:
        yield
    except StoreUnavailable:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such object", full) from None
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, _reason(error), full) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _reason(error), full) from None
    except (BaseError, OSError) as error:
        raise StoreUnavailable(errno.EIO, _reason(error), full) from None


def _reason(error: BaseException) -> str:
    """The code and message of a response, or the part of the text after the request."""
    text, _, details = str(error).partition("\n\nDebug source")
    host = _HOST.search(text)
    if _NOT_SENT in text and host is not None:
        cause = _CAUSE.search(details) if "kind: Connect" in details else None
        why = "it timed out" if "kind: Timeout" in details else _NOT_SENT
        return f"{host[1]} does not answer: {why if cause is None else cause[1]}"
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is not None:
        return f"{code[1]}: {message[1]}" if message is not None else code[1]
    _, separator, after = text.partition(" - ")
    if not separator:
        return type(error).__name__
    return _URL.sub("...", " ".join(after.split())).rstrip(":")[:300]
