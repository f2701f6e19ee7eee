"""Azure Blob Storage for tests: one container in memory, with the requests that a table makes."""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from support.pipeline.local_http import served

CONTAINER = "lake"
ACCOUNT_KEY = "dGVzdC1rZXktb2YtdGhlLWxha2U="
_BOUNDARY = "batchresponse_test"
_DELETE = re.compile(rb"^DELETE (\S+) HTTP/1.1", re.MULTILINE)
_EXISTS = b"<Error><Code>BlobAlreadyExists</Code><Message>It exists.</Message></Error>"
_MISSING = b"<Error><Code>BlobNotFound</Code><Message>There is none.</Message></Error>"


class Blob(NamedTuple):
    content: bytes
    etag: str
    modified: str


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class AzureServer:
    """A container with the options to reach it; each test uses prefixes of its own."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self._blobs: dict[str, Blob] = {}
        self._blocks: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def new_path(self, name: str = "t") -> TablePath:
        return TablePath(f"az://{CONTAINER}/{uuid4().hex}/{name}", StorageOptions(self.options))

    def answer(self, method: str, target: str, headers: Message, body: bytes) -> Answer:
        parts = urlsplit(target)
        query = {name: found[0] for name, found in parse_qs(parts.query).items()}
        name = unquote(parts.path).removeprefix(f"/{CONTAINER}").lstrip("/")
        with self._lock:
            if method == "PUT":
                is_new = headers.get("If-None-Match") == "*"
                return self._put(name, query, body, must_be_new=is_new)
            if method == "POST":
                return self._delete_batch(body)
            if query.get("comp") == "list":
                return self._list(query.get("prefix", ""), query.get("delimiter", ""))
            return self._get(name, headers.get("Range"))

    def _put(
        self, name: str, query: Mapping[str, str], body: bytes, *, must_be_new: bool
    ) -> Answer:
        if query.get("comp") == "block":
            self._blocks[f"{name} {query['blockid']}"] = body
            return Answer(201)
        if must_be_new and name in self._blobs:
            return Answer(409, _EXISTS)
        if query.get("comp") == "blocklist":
            body = b"".join(self._blocks[f"{name} {one.text}"] for one in ET.fromstring(body))
        blob = Blob(body, f'"{uuid4().hex}"', formatdate(time.time(), usegmt=True))
        self._blobs[name] = blob
        return Answer(201, headers=_described(blob))

    def _get(self, name: str, part: str | None) -> Answer:
        blob = self._blobs.get(name)
        if blob is None:
            return Answer(404, _MISSING)
        if part is None:
            return Answer(200, blob.content, _described(blob))
        first, _, last = part.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1, len(blob.content))
        place = {"Content-Range": f"bytes {start}-{end - 1}/{len(blob.content)}"}
        return Answer(206, blob.content[start:end], {**_described(blob), **place})

    def _list(self, prefix: str, delimiter: str) -> Answer:
        entries: dict[str, str] = {}
        for name, blob in sorted(self._blobs.items()):
            if not name.startswith(prefix):
                continue
            above, cut, _ = name[len(prefix) :].partition(delimiter or "\0")
            if cut:
                folder = prefix + above + cut
                entries[folder] = f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>"
                continue
            entries[name] = (
                f"<Blob><Name>{escape(name)}</Name><Properties>"
                f"<Last-Modified>{blob.modified}</Last-Modified><Etag>{blob.etag}</Etag>"
                f"<Content-Length>{len(blob.content)}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            )
        blobs = "".join(entries.values())
        text = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"
        return Answer(200, text.encode())

    def _delete_batch(self, body: bytes) -> Answer:
        """Deletes; clients send a batch for a single one, too."""
        answers = []
        for number, path in enumerate(_DELETE.findall(body)):
            name = unquote(path.decode()).removeprefix(f"/{CONTAINER}/")
            is_missing = self._blobs.pop(name, None) is None
            status = "404 The specified blob does not exist." if is_missing else "202 Accepted"
            answers.append(
                f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n"
                f"\r\nHTTP/1.1 {status}\r\nx-ms-version: 2023-11-03\r\n\r\n"
            )
        text = f"{''.join(answers)}--{_BOUNDARY}--\r\n"
        kind = {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}
        return Answer(202, text.encode(), kind)


def _described(blob: Blob) -> dict[str, str]:
    return {"ETag": blob.etag, "Last-Modified": blob.modified}


@contextmanager
def running_azure() -> Iterator[AzureServer]:
    """A container that is served until the block ends."""
    azure = AzureServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = azure.answer(self.command, self.path, self.headers, body)
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_PUT = do_POST = do_HEAD = handle_one  # noqa: N815

    with served(Handler) as port:
        azure.options = {
            "account_name": "test",
            "account_key": ACCOUNT_KEY,
            "endpoint": f"http://127.0.0.1:{port}",
        }
        yield azure
