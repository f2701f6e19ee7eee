"""A schema registry in memory, as far as confluent-kafka's serializers and Sawlog ask it."""

import json
import re
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

PROTO_SOURCE = 'syntax = "proto3"; // a registry writes the source unless asked for descriptors'


class Stored(NamedTuple):
    """A schema of the registry: what was registered, with its id and GUID."""

    id: int
    guid: str
    schema: dict[str, Any]


class Answer(NamedTuple):
    status: int
    document: Any


NOT_FOUND = Answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})


class SchemaRegistry:
    """The schemas, what was asked for, and what it answers instead of the truth.

    `script` is called with the path of each request; an Answer it returns replaces the usual one.
    """

    def __init__(self) -> None:
        self.schemas: list[Stored] = []
        self.subjects: dict[str, list[Stored]] = {}
        self.requests: list[str] = []
        self.authorizations: set[str | None] = set()
        self.required_authorization: str | None = None
        self.script: Callable[[str], Answer | None] = lambda _path: None
        self.scheme = "http"
        self.port = 0
        self._folder = f"/{uuid.uuid4().hex}"  # clients keep the schemas of a URL, and ports recur

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{self._folder}"

    def register(self, subject: str, schema: dict[str, Any]) -> Stored:
        stored = next((one for one in self.schemas if one.schema == schema), None)
        if stored is None:
            number = len(self.schemas) + 1
            stored = Stored(number, str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))), schema)
            self.schemas.append(stored)
        versions = self.subjects.setdefault(subject, [])
        if stored not in versions:
            versions.append(stored)
        return stored

    def answer(self, method: str, target: str, body: Any) -> Answer:
        self.requests.append(f"{method} {target.removeprefix(self._folder)}")
        parts = urlsplit(target.removeprefix(self._folder))
        path, query = parts.path, parse_qs(parts.query)
        if (scripted := self.script(path)) is not None:
            return scripted
        if path == "/schemas/types":
            return Answer(200, ["JSON", "PROTOBUF", "AVRO"])
        if match := re.fullmatch(r"/schemas/(ids|guids)/([^/]+)", path):
            name = match[2]
            found = [one for one in self.schemas if name in (str(one.id), one.guid)]
            if not found:
                return Answer(404, {"error_code": 40403, "message": f"Schema {name} not found"})
            return Answer(200, _document(found[0], query))
        if match := re.fullmatch(r"/subjects/([^/]+)(?:/versions(?:/(\w+))?)?", path):
            return self._subject(method, unquote(match[1]), match[2], body, query)
        return NOT_FOUND

    def _subject(
        self, method: str, subject: str, version: str | None, body: Any, query: dict[str, list[str]]
    ) -> Answer:
        if method == "POST":
            stored = self.register(subject, body)
            return Answer(200, self._version(subject, stored, {"format": ["serialized"]}))
        versions = self.subjects.get(subject, [])
        if not versions:
            return Answer(404, {"error_code": 40401, "message": f"Subject '{subject}' not found."})
        stored = versions[-1 if version == "latest" else int(version or 0) - 1]
        return Answer(200, self._version(subject, stored, query))

    def _version(self, subject: str, stored: Stored, query: dict[str, list[str]]) -> dict[str, Any]:
        return {
            **_document(stored, query),
            "subject": subject,
            "id": stored.id,
            "guid": stored.guid,
            "version": self.subjects[subject].index(stored) + 1,
        }


def _document(stored: Stored, query: dict[str, list[str]]) -> dict[str, Any]:
    document = {name: value for name, value in stored.schema.items() if value}
    if document.get("schemaType") == "AVRO":
        del document["schemaType"]  # the default is left out
    if document.get("schemaType") == "PROTOBUF" and query.get("format") != ["serialized"]:
        document["schema"] = PROTO_SOURCE
    return {**document, "guid": stored.guid}


@contextmanager
def running_registry(tls: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    """A registry that serves until the block ends."""
    registry = SchemaRegistry()
    registry.scheme = "http" if tls is None else "https"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Requests are recorded, not logged."""

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._answer(json.loads(self.rfile.read(length)))

        def _answer(self, body: Any) -> None:
            authorization = self.headers.get("Authorization")
            registry.authorizations.add(authorization)
            if registry.required_authorization not in (None, authorization):
                answer = Answer(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                answer = registry.answer(self.command, self.path, body)
            text = answer.document
            data = text if isinstance(text, bytes) else json.dumps(text).encode()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
