"""Google Cloud Storage for tests: a proxy before an S3 server that translates requests.

Google's XML API, which clients use, is that of S3 but for the condition of a PUT and the signature.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from support.pipeline.local_http import served
from support.pipeline.s3_servers import ACCESS_KEY, BUCKET

CONDITION = "x-goog-if-generation-match"
_SIGNATURE = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20250101/us-east-1/s3/aws4_request"
_OWN_HEADERS = ("transfer-encoding", "connection", "content-length")


class GoogleServer:
    """A bucket with the options to reach it; each test uses prefixes of its own."""

    def __init__(self, port: int) -> None:
        account = {
            "gcs_base_url": f"http://127.0.0.1:{port}", "disable_oauth": True,
            "client_email": "", "private_key": "", "private_key_id": "",
        }  # fmt: skip
        self.options = {"service_account_key": json.dumps(account), "allow_http": "true"}

    def new_path(self, name: str = "t") -> TablePath:
        return TablePath(f"gs://{BUCKET}/{uuid4().hex}/{name}", StorageOptions(self.options))


@contextmanager
def google_before(s3_port: int) -> Iterator[GoogleServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items()
                       if name.lower() not in ("authorization", "host", CONDITION)}  # fmt: skip
            if self.headers.get(CONDITION) == "0":
                headers["If-None-Match"] = "*"
            headers["Authorization"] = f"{_SIGNATURE}, SignedHeaders=host, Signature=none"
            connection = http.client.HTTPConnection("127.0.0.1", s3_port)
            try:
                connection.request(self.command, self.path, body or None, headers)
                response = connection.getresponse()
                self._answer(response, response.read())
            finally:
                connection.close()

        def _answer(self, response: http.client.HTTPResponse, body: bytes) -> None:
            self.send_response_only(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _OWN_HEADERS:
                    self.send_header(name, value)
            is_head = self.command == "HEAD"
            length = response.getheader("Content-Length") if is_head else str(len(body))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(b"" if is_head else body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815

    with served(Handler) as port:
        yield GoogleServer(port)
