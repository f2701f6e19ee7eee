"""`python -m support.pipeline.moto_server`: an S3 server in memory; prints its port, then serves.

moto checks the condition of a PUT and stores the object in two steps, so requests are handled one
by one: as in S3, one of several writers wins.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
        """Requests are not logged."""


def main() -> None:
    application = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def one_by_one(environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        with lock:
            return [b"".join(application(environ, respond))]

    server = make_server("127.0.0.1", 0, one_by_one, threaded=True, request_handler=Handler)
    print(f"port {server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
