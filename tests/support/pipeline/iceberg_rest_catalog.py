"""A small REST catalog of Iceberg tables in memory, with faults that a test asks for.

It serves the part of Iceberg's REST API that a landing needs and checks requirements with
pyiceberg's own functions. Commits are applied one by one.
"""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

_TABLES = "/v1/namespaces/sawlog/tables"


class Fault(Enum):
    """What happens to one commit."""

    LOST_ANSWER = "it is applied and the connection is closed"
    LOST_REQUEST = "the connection is closed"
    UNKNOWN = "it is applied and answered with 500"
    UNAVAILABLE = "it is answered with 503"
    FORBIDDEN = "it is answered with 403"
    CONFLICT = "it is answered with 409"
    LATE = "the connection is closed; it is applied before the next commit"


class RestCatalogServer:
    """Runs in a thread; `uri` is its address. `faults` are used up by commits, in order."""

    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        self.commits = 0
        self.requirements: list[set[str]] = []  # of each commit, their types
        self._tables: dict[str, TableMetadata] = {}
        self._late: list[tuple[str, CommitTableRequest]] = []
        self._lock = threading.Lock()
        catalog = self

        class Handler(_Handler):
            server_catalog = catalog

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["RestCatalogServer"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def load(self, name: str) -> dict[str, Any] | None:
        with self._lock:
            return self._answer(name) if name in self._tables else None

    def create(self, body: bytes) -> dict[str, Any] | None:
        request = CreateTableRequest.model_validate_json(body)
        with self._lock:
            if request.name in self._tables:
                return None
            self._tables[request.name] = new_table_metadata(
                request.table_schema,
                request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                request.write_order or UNSORTED_SORT_ORDER,
                request.location or f"memory://{request.name}",
                dict(request.properties),
            )
            return self._answer(request.name)

    def commit(self, name: str, body: bytes) -> tuple[int, dict[str, Any]] | None:
        """The status and answer; None if the connection is to be closed."""
        request = CommitTableRequest.model_validate_json(body)
        with self._lock:
            fault = self.faults.popleft() if self.faults else None
            for late_name, late in self._late:
                self._apply(late_name, late)
            self._late = []
            match fault:
                case Fault.LOST_REQUEST:
                    return None
                case Fault.UNAVAILABLE:
                    return 503, _error("SlowDown", 503)
                case Fault.FORBIDDEN:
                    return 403, _error("ForbiddenException", 403)
                case Fault.CONFLICT:
                    return 409, _error("CommitFailedException", 409)
                case Fault.LATE:
                    self._late.append((name, request))
                    return None
            applied = self._apply(name, request)
            if fault is Fault.LOST_ANSWER:
                return None
            if fault is Fault.UNKNOWN:
                return 500, _error("CommitStateUnknownException", 500)
            if not applied:
                return 409, _error("CommitFailedException", 409)
            return 200, self._answer(name)

    def _apply(self, name: str, request: CommitTableRequest) -> bool:
        metadata = self._tables[name]
        self.requirements.append({requirement.type for requirement in request.requirements})
        try:
            for requirement in request.requirements:
                requirement.validate(metadata)
        except CommitFailedException:
            return False
        self._tables[name] = update_table_metadata(metadata, request.updates)
        self.commits += 1
        return True

    def _answer(self, name: str) -> dict[str, Any]:
        metadata = json.loads(self._tables[name].model_dump_json())
        location = f"{metadata['location']}/metadata/{self.commits:05}.metadata.json"
        return {"metadata-location": location, "metadata": metadata, "config": {}}


def _error(kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": "asked for by a test", "type": kind, "code": code}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_catalog: RestCatalogServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not logged."""

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            self._send(200, {"defaults": {}, "overrides": {}})
        elif self.path.startswith(f"{_TABLES}/"):
            found = self.server_catalog.load(self._name())
            if found is None:
                self._send(404, _error("NoSuchTableException", 404))
            else:
                self._send(200, found)
        else:
            self._send(404, _error("NoSuchNamespaceException", 404))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/v1/namespaces":
            self._send(409, _error("AlreadyExistsException", 409))
        elif self.path == _TABLES:
            made = self.server_catalog.create(body)
            if made is None:
                self._send(409, _error("AlreadyExistsException", 409))
            else:
                self._send(200, made)
        else:
            answer = self.server_catalog.commit(self._name(), body)
            if answer is None:
                self.close_connection = True
                self.connection.close()
            else:
                self._send(*answer)

    def _name(self) -> str:
        return self.path.partition("?")[0].rpartition("/")[2]

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
