"""A proxy before an S3 server that loses responses, delays requests and answers with errors.

`script(method, path)` decides about each request: it returns a Fault, or None to pass it on. The
Host header is passed on as it is, because the signature covers it.
"""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONDITION = "If-None-Match"


@dataclass(frozen=True)
class Fault:
    """`passes`: the server gets the request; `status`: the response, None closes the connection."""

    passes: bool
    status: int | None = None
    code: str = "InternalError"
    until: threading.Event | None = None  # the request is held until then


LOST_RESPONSE = Fault(passes=True)
LOST_REQUEST = Fault(passes=False)
ERROR_AFTER_SUCCESS = Fault(passes=True, status=500)
CONFLICT = Fault(passes=False, status=409, code="ConditionalRequestConflict")
UNAVAILABLE = Fault(passes=False, status=503, code="SlowDown")

Script = Callable[[str, str], Fault | None]


class FaultProxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lock = threading.Lock()
        self.script: Script = lambda _method, _path: None
        self.drops_conditions = False
        self.seen: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Requests are not logged."""

            def handle_one(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = request.path.partition("?")[0]
        with self._lock:
            self.seen.append((request.command, path))
            fault = self.script(request.command, path)
        if fault is not None and fault.until is not None:
            fault.until.wait()
        response = None
        if fault is None or fault.passes:
            response = self._forward(request, body)
        with suppress(ConnectionError):
            if fault is not None and fault.until is None:
                self._fail(request, fault)
            elif response is not None:
                self._answer(request, *response)

    def _forward(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._server_port)
        try:
            headers = {
                name: value
                for name, value in request.headers.items()
                if not (self.drops_conditions and name.lower() == CONDITION.lower())
            }
            connection.request(request.command, request.path, body or None, headers)
            found = connection.getresponse()
            return found.status, found.getheaders(), found.read()
        finally:
            connection.close()

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> None:
        request.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                request.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length")
        request.send_header("Content-Length", length if request.command == "HEAD" and length
                            else str(len(body)))  # fmt: skip
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def _fail(self, request: BaseHTTPRequestHandler, fault: Fault) -> None:
        if fault.status is None:
            request.close_connection = True
            return
        text = f"<Error><Code>{fault.code}</Code><Message>by the proxy</Message></Error>"
        self._answer(request, fault.status, [("Content-Type", "application/xml")], text.encode())


@contextmanager
def proxied(server_port: int) -> Iterator[FaultProxy]:
    proxy = FaultProxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()


def first(count: int, fault: Fault, method: str = "PUT", part: str = "") -> Script:
    """A script that applies the fault to the first matching requests."""
    left = [count]

    def decide(found_method: str, path: str) -> Fault | None:
        if found_method != method or part not in path or not left[0]:
            return None
        left[0] -= 1
        return fault

    return decide
