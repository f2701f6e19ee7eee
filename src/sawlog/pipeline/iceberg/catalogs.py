"""Catalogs of Iceberg tables: SQL, REST or Glue, by the library pyiceberg.

The catalog of a pipeline without `catalog:` is an SQLite file in the directory of the lake. A lake
in an object store needs a catalog that all drivers reach, because an object store has no place for
such a file.
"""

import errno
import functools
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sawlog.pipeline.delta.errors import StoreUnavailable, TableError, UnsupportedStorage
from sawlog.pipeline.delta.table_path import (
    NO_OPTIONS,
    StorageOptions,
    TablePath,
    is_object_store,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_TYPES = ("sql", "rest", "glue")
CATALOG_FILE = "iceberg_catalog.db"
DEFAULT_NAMESPACE = "sawlog"
_NAME = "sawlog"
_HTTP_TIMEOUT_S = 60.0
_S3_PROPERTIES = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "token": "s3.session-token",
    "region": "s3.region",
    "default_region": "s3.region",
    "endpoint": "s3.endpoint",
    "endpoint_url": "s3.endpoint",
}


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """A catalog; `options` are pyiceberg's, such as `uri`, `warehouse`, `credential` or `token`.

    Their values are never shown, since credentials are among them.
    """

    kind: str = "sql"
    namespace: str = DEFAULT_NAMESPACE
    options: StorageOptions = NO_OPTIONS

    def __str__(self) -> str:
        return f"the {self.kind} catalog"


def embedded_catalog(lake: TablePath) -> CatalogConfig:
    """The catalog in the directory of the lake. Raises UnsupportedStorage for an object store."""
    if is_object_store(lake):
        raise UnsupportedStorage(
            f"{lake} is an object store, which has no place for a catalog of Iceberg tables: name"
            " one, catalog: {type: sql, uri: postgresql+psycopg2://...}, or a rest or glue one"
        )
    return CatalogConfig(options=StorageOptions({"uri": f"sqlite:///{lake}/{CATALOG_FILE}"}))


def check_location(path: TablePath) -> None:
    """Raise UnsupportedStorage for a path that no Iceberg table can have."""
    scheme = path.partition("://")[0] if is_object_store(path) else None
    if scheme not in (None, "s3"):
        raise UnsupportedStorage(
            f"{path}: Iceberg tables are in directories or on s3://; use table_format: delta"
        )
    if scheme is None and ("#" in path or "?" in path):
        raise UnsupportedStorage(f"{path}: the path of an Iceberg table has no '#' and no '?'")


def is_created(config: CatalogConfig) -> bool:
    """Whether the catalog may have tables; False for an SQLite file that is not there yet."""
    file = _sqlite_file(config.options)
    return config.kind != "sql" or file is None or os.path.exists(file)


def create_namespace(config: CatalogConfig, catalog: "Catalog") -> None:
    """Create the namespace of the catalog's tables, if it does not exist."""
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError

    try:
        catalog.load_namespace_properties(config.namespace)
    except NoSuchNamespaceError:
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(config.namespace)


def _sqlite_file(options: Mapping[str, str]) -> str | None:
    prefix, uri = "sqlite:///", options.get("uri", "")
    return uri.removeprefix(prefix) if uri.startswith(prefix) else None


def check_installed() -> None:
    """Raise UnsupportedStorage without pyiceberg, which is an extra."""
    if find_spec("pyiceberg") is None:
        raise UnsupportedStorage(
            "table_format: iceberg needs pyiceberg: pip install 'sawlog[iceberg]'"
        )


def open_catalog(config: CatalogConfig, path: TablePath) -> "Catalog":
    """The catalog, shared by all tables of this process that have the same storage options.

    Raises UnsupportedStorage for wrong options, StoreUnavailable if the catalog does not answer.
    """
    check_location(path)
    return _open(config, path.options, is_object_store(path), os.getpid())


@functools.lru_cache(maxsize=16)
def _open(
    config: CatalogConfig, store: StorageOptions, is_in_store: bool, _process: int
) -> "Catalog":
    check_installed()
    try:
        return _load(config, {**config.options, **_file_properties(store, is_in_store)})
    except (ValueError, TypeError, KeyError, ImportError) as error:
        raise UnsupportedStorage(f"{config}: {_without_values(error, config.options)}") from None
    except Exception as error:
        raise catalog_error(config, error) from None


def _load(config: CatalogConfig, properties: dict[str, str]) -> "Catalog":
    match config.kind:
        case "sql":
            return _load_sql(properties)
        case "rest":
            return _load_rest(properties)
        case "glue":
            from pyiceberg.catalog.glue import GlueCatalog

            return GlueCatalog(_NAME, **properties)
    raise ValueError(f"{config.kind!r} is not a type of catalog: {', '.join(CATALOG_TYPES)}")


def _load_sql(properties: dict[str, str]) -> "Catalog":
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import OperationalError, ProgrammingError

    file = _sqlite_file(properties)
    if file is not None:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
    try:
        return SqlCatalog(_NAME, **properties)
    except (OperationalError, ProgrammingError):  # another process created the tables meanwhile
        return SqlCatalog(_NAME, **properties)


def _load_rest(properties: dict[str, str]) -> "Catalog":
    from pyiceberg.catalog.rest import RestCatalog

    class TimedRestCatalog(RestCatalog):
        """A REST catalog whose requests end; pyiceberg's wait for a response without a limit."""

        def _create_session(self) -> Any:
            session = super()._create_session()
            timed = functools.partial(session.request, timeout=_HTTP_TIMEOUT_S)
            session.request = timed  # type: ignore[method-assign]
            return session

    return TimedRestCatalog(_NAME, **properties)


def _file_properties(store: StorageOptions, is_in_store: bool) -> dict[str, str]:
    """How pyiceberg reads and writes files: durably in a directory, else with the lake's options.

    Options that a lake leaves out come from the environment, as for Delta tables.
    """
    if not is_in_store:
        from sawlog.pipeline.iceberg.durable_file_io import IMPLEMENTATION

        return {"py-io-impl": IMPLEMENTATION}
    from sawlog.pipeline.delta.store_clients import delta_options

    found: dict[str, str] = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    for name, value in delta_options("s3", store).items():
        known = _S3_PROPERTIES.get(name.removeprefix("aws_"))
        if known is not None:
            found[known] = value
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        found.setdefault("s3.endpoint", endpoint)
    return found


def catalog_error(config: CatalogConfig, error: BaseException) -> TableError | StoreUnavailable:
    """The error for a catalog that refuses a request, or does not answer as expected."""
    from pyiceberg.exceptions import (
        BadRequestError,
        ForbiddenError,
        NoSuchNamespaceError,
        OAuthError,
        UnauthorizedError,
    )

    reason = _without_values(error, config.options)
    refusals = (
        BadRequestError, ForbiddenError, NoSuchNamespaceError, OAuthError, UnauthorizedError,
        FileNotFoundError,
    )  # fmt: skip
    if isinstance(error, refusals):
        return TableError(f"{config}: {type(error).__name__}: {reason}")
    return StoreUnavailable(errno.EIO, f"{type(error).__name__}: {reason}", str(config))


def _without_values(error: BaseException, options: StorageOptions) -> str:
    """The first line of the message, with the values of options blotted out.

    Of a URI with credentials their parts are, too: a library may quote the part that it rejects.
    """
    text = (str(error).strip().splitlines() or ["no message"])[0]
    for value in options.values():
        credentials = value.partition("://")[2].rpartition("@")[0]
        for part in (value, *re.split("[:/]", credentials)):
            text = text.replace(part, "***") if part else text
    return text[:300]
