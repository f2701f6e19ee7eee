"""File access of pyiceberg that makes metadata durable in local directories.

pyiceberg writes manifests and table metadata without fsync. A catalog, which syncs its own commits,
could then refer to files that a power failure has removed.
"""

import os
from types import TracebackType
from typing import Any, Self

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

IMPLEMENTATION = f"{__name__}.DurableFileIO"


class DurableFileIO(PyArrowFileIO):
    """Like PyArrowFileIO; a local file is durable when it is closed."""

    def new_output(self, location: str) -> PyArrowFile:
        file = super().new_output(location)
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return file
        return _LocalFile(location, path, self.fs_by_scheme(scheme, netloc))


class _LocalFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        return _SyncedStream(super().create(overwrite), self._path)


class _SyncedStream:
    """An output stream that syncs its file, and the directory above, when it is closed."""

    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path

    def write(self, data: bytes) -> int:
        return int(self._stream.write(data) or 0)

    def tell(self) -> int:
        return int(self._stream.tell())

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        if self._stream.closed:
            return
        self._stream.close()
        for place in (self._path, os.path.dirname(self._path)):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
