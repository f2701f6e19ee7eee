"""Where a table is: a directory or the URL of an object store, with the options of that store.

`s3://bucket/prefix`, `gs://bucket/prefix` and `az://container/prefix` are object stores. Everything
else is a directory, also as `file:///directory`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

SCHEMES = ("s3", "gs", "az")


class StorageOptions(Mapping[str, str]):
    """Options of an object store or a schema registry, such as its endpoint and credentials.

    The values are never shown: `repr` has the names alone.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = dict(options or {})

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._options == other._options

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted(self._options))})"


NO_OPTIONS = StorageOptions()


class Address(str):
    """A path or URL that carries its options to all processes that open it.

    As text it is the address alone, so that JSON, messages and logs have no credentials; a pickle
    has both. Text made from it, by formatting for example, has no options.
    """

    options: StorageOptions

    def __new__(cls, path: str | os.PathLike[str], options: StorageOptions | None = None) -> Self:
        made = super().__new__(cls, os.fspath(path))
        made.options = NO_OPTIONS if options is None else options
        return made

    def __getnewargs__(self) -> tuple[str, StorageOptions]:  # type: ignore[override]
        return str(self), self.options

    def __str__(self) -> str:
        return super().__str__()


class TablePath(Address):
    """Where a table or a lake is, with the options of its store; `child` and `+` keep them."""

    def __add__(self, suffix: str) -> "TablePath":
        return TablePath(super().__add__(suffix), self.options)

    def child(self, name: str) -> "TablePath":
        return TablePath(f"{self}/{name}", self.options)

    def sibling(self, name: str) -> "TablePath":
        """The path of `name` beside the last part of this path."""
        return TablePath(f"{self.rpartition('/')[0]}/{name}", self.options)


AnyPath = str | os.PathLike[str]


def table_path(path: AnyPath) -> TablePath:
    """The path with its options; plain text has none."""
    return path if isinstance(path, TablePath) else TablePath(path)


def is_object_store(path: AnyPath) -> bool:
    return os.fspath(path).partition("://")[0] in SCHEMES


class StoreUrl(NamedTuple):
    scheme: str
    bucket: str  # a container in Azure
    prefix: str  # without slashes at its ends; may be empty

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'/' if self.prefix else ''}{self.prefix}"


def parse_url(url: str) -> StoreUrl:
    """Split the URL of an object store. Raises ValueError, without the URL if it has credentials.

    Credentials belong into options or the environment, because paths are shown everywhere.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ValueError(f"{scheme}:// is not supported; there are {known} and directories")
    bucket, _, prefix = rest.partition("/")
    # A key in front of an "@" may have a slash; no bucket has a colon.
    if "@" in bucket or ":" in bucket or "?" in rest or "#" in rest:
        raise ValueError(
            f"a {scheme}:// URL has a bucket and a prefix only; credentials and options are given"
            " beside it (lake_options) or by the environment"
        )
    if not bucket:
        raise ValueError(f"{url!r} names no bucket: {scheme}://BUCKET/PREFIX")
    parts = [part for part in prefix.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise ValueError(f"{url!r} has '.' or '..' in its prefix")
    return StoreUrl(scheme, bucket, "/".join(parts))
