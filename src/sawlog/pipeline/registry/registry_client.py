"""Fetches schemas from a registry that speaks Confluent's REST API, as Karapace does too.

The schema of an id never changes, so each process keeps those that it has fetched. A registry that
says that it has no such schema raises UnknownSchema; one that gives no usable response, after
retries, raises RegistryUnavailable.
"""

import base64
import http.client
import json
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from sawlog.pipeline.delta.table_path import StorageOptions
from sawlog.pipeline.registry.registry_url import TIMEOUT_S, RegistryUrl

SchemaId = int | str
"""The id of a schema, or its GUID as text."""

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_PAUSES_S = (0.2, 0.8)  # before the second and the third attempt
_NOT_FOUND = (40401, 40402, 40403)  # Confluent's codes: subject, version, schema
_BUSY = (408, 429)
_MAX_BYTES = 64 << 20
_MAX_KEPT = 1_000
_MAX_REFERENCES = 1_000


class RegistryUnavailable(Exception):
    """The registry does not answer, or not as a registry does."""


class RegistryRefused(Exception):
    """The registry refuses the credentials."""


class UnknownSchema(Exception):
    """The registry has no such schema."""


class Reference(NamedTuple):
    """A schema that another one imports under a name."""

    name: str
    text: str


class RegisteredSchema(NamedTuple):
    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[Reference, ...]
    """All schemas that it needs; each one stands behind those that it needs itself."""


class _Response(NamedTuple):
    status: int
    body: bytes


class RegistryClient:
    """Asks one registry; threads take turns."""

    def __init__(self, url: RegistryUrl, pause: Callable[[float], None] = time.sleep) -> None:
        self._url = url
        self._pause = pause
        self._headers = {"Accept": _ACCEPT, **_authorization(url.options)}
        self._timeout_s = float(url.options.get("timeout", TIMEOUT_S))
        self._kept: OrderedDict[tuple[SchemaId, str], RegisteredSchema] = OrderedDict()
        self._lock = threading.Lock()

    def schema(self, schema_id: SchemaId, format_: str = "") -> RegisteredSchema:
        """The schema of an id or GUID; `format_` is the form in which the registry writes it."""
        with self._lock:
            found = self._kept.get((schema_id, format_))
            if found is None:
                found = self._fetch(schema_id, format_)
                self._kept[schema_id, format_] = found
                if len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
            return found

    def check(self) -> None:
        """Raise an error unless the registry answers and accepts the credentials."""
        with self._lock:
            if not self._is_registry():
                raise RegistryUnavailable(f"{self._url} does not answer as a schema registry does")

    def _fetch(self, schema_id: SchemaId, format_: str) -> RegisteredSchema:
        document = self._document(schema_id, format_)
        references: dict[str, Reference] = {}
        try:
            self._resolve(document, format_, references)
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryUnavailable(
                f"{self._url}: malformed references of schema {schema_id}"
            ) from error
        kind = str(document.get("schemaType") or "AVRO").upper()
        return RegisteredSchema(kind, _text(document), tuple(references.values()))

    def _document(self, schema_id: SchemaId, format_: str) -> dict[str, Any]:
        where = f"ids/{schema_id}" if isinstance(schema_id, int) else f"guids/{schema_id}"
        query = f"?format={quote(format_)}" if format_ else ""
        document = self._get(f"/schemas/{where}{query}")
        if not isinstance(document.get("schema"), str):
            raise RegistryUnavailable(f"{self._url}: the response for schema {schema_id} has none")
        return document

    def _resolve(self, document: dict[str, Any], format_: str, found: dict[str, Reference]) -> None:
        """Add the schemas that a document refers to, by way of their ids."""
        for reference in document.get("references") or ():
            name = str(reference["name"])
            if name in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise UnknownSchema(f"it has more than {_MAX_REFERENCES} references")
            subject, version = quote(str(reference["subject"]), safe=""), reference["version"]
            entry = self._get(f"/subjects/{subject}/versions/{version}?deleted=true")
            imported = self._document(int(entry["id"]), format_)
            found[name] = Reference(name, "")  # a cycle ends here
            self._resolve(imported, format_, found)
            del found[name]
            found[name] = Reference(name, _text(imported))

    def _get(self, path: str) -> dict[str, Any]:
        response = self._answer(path)
        if response.status == 200:
            document = _json(response)
            if isinstance(document, dict):
                return document
            raise RegistryUnavailable(f"{self._url} does not answer as a schema registry does")
        if 400 <= response.status < 500:
            document = _json(response)
            code = document.get("error_code") if isinstance(document, dict) else None
            # A wrong URL and an id that is no number give other codes, or none.
            if code in _NOT_FOUND or self._is_registry():
                raise UnknownSchema("the registry has no such schema")
        raise RegistryUnavailable(f"{self._url} answers with HTTP status {response.status}")

    def _is_registry(self) -> bool:
        response = self._answer("/schemas/types")
        return response.status == 200 and isinstance(_json(response), list)

    def _answer(self, path: str) -> _Response:
        """The first usable response, from any of the URLs."""
        reason = ""
        for pause_s in (0.0, *_PAUSES_S):
            if pause_s:
                self._pause(pause_s)
            for url in self._url.urls:
                try:
                    response = self._request(url, path)
                except (OSError, http.client.HTTPException) as error:
                    reason = _reason(error)
                    continue
                if response.status in (401, 403):
                    raise RegistryRefused(
                        f"the schema registry {url} answers with HTTP status {response.status}:"
                        " check user and password, or token, in registry_options or the environment"
                    )
                if response.status < 500 and response.status not in _BUSY:
                    return response
                reason = f"HTTP status {response.status}"
        raise RegistryUnavailable(f"the schema registry {self._url} does not answer: {reason}")

    def _request(self, url: str, path: str) -> _Response:
        """One request, on a connection of its own: schemas are kept, so there are few."""
        with closing(self._connect(url)) as connection:
            connection.request("GET", urlsplit(url).path + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise http.client.HTTPException(f"a response of more than {_MAX_BYTES} bytes")
        return _Response(response.status, body)

    def _connect(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=self._timeout_s)
        context = ssl.create_default_context(cadata=self._url.options.get("ca_certificates"))
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=self._timeout_s, context=context
        )


def registry_client(url: RegistryUrl) -> RegistryClient:
    """The client of this process for a registry and its credentials."""
    return _client(str(url), url.options)


@lru_cache(maxsize=32)
def _client(url: str, options: StorageOptions) -> RegistryClient:
    return RegistryClient(RegistryUrl(url, options))


def _authorization(options: StorageOptions) -> dict[str, str]:
    if "token" in options:
        return {"Authorization": f"Bearer {options['token']}"}
    if "user" in options:
        pair = f"{options['user']}:{options['password']}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _json(response: _Response) -> Any:
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        return None


def _text(document: dict[str, Any]) -> str:
    return str(document["schema"])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no response in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
