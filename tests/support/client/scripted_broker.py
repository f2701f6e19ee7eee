"""A peer on a real socket with scripted responses, for what a correct broker never does.

By default it serves ApiVersions and Metadata, with itself as the leader of every partition. `reply`
queues responses per API; without one, a request gets the API's default response, or none.
"""

import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, Self

from sawlog.protocol import headers
from sawlog.protocol.apis import (
    ApiKey,
    advertised_versions,
    request_class,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from sawlog.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sawlog.protocol.schema import Message

NODE_ID = 7


class Act(Enum):
    CLOSE = "closes the connection"
    SILENCE = "never responds"


Reply = Message | bytes | Act
Answer = Reply | Callable[[Any], Reply]


class ScriptedBroker:
    def __init__(self, **partition_counts: int) -> None:
        self.partition_counts = partition_counts
        self.requests: list[tuple[ApiKey, int, Any]] = []
        self.offers = {
            api: advertised_versions(api)
            for api in (
                ApiKey.PRODUCE,
                ApiKey.FETCH,
                ApiKey.LIST_OFFSETS,
                ApiKey.METADATA,
                ApiKey.API_VERSIONS,
                ApiKey.CREATE_TOPICS,
                ApiKey.INIT_PRODUCER_ID,
            )
        }
        self.leader = NODE_ID
        self._script: dict[ApiKey, deque[Answer]] = defaultdict(deque)
        self._standing: dict[ApiKey, Answer] = {
            ApiKey.API_VERSIONS: lambda _: self.versions(),
            ApiKey.METADATA: self.metadata,
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.host, self.port = self._listener.getsockname()
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_listening()
        self.close_connections()
        for thread in self._threads:
            thread.join()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def reply(self, api: ApiKey, *answers: Answer) -> None:
        """Queue responses, one per request, before the default response."""
        self._script[api].extend(answers)

    def always_reply(self, api: ApiKey, answer: Answer) -> None:
        self._standing[api] = answer

    def requests_for(self, api: ApiKey) -> list[Any]:
        return [message for key, _, message in self.requests if key is api]

    def stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def close_connections(self) -> None:
        for connection in self._connections:
            with suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)

    def versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=api, min_version=first, max_version=last)
                for api, (first, last) in self.offers.items()
            ]
        )

    def metadata(self, request: Any) -> MetadataResponse:
        wanted = request.topics
        names = self.partition_counts if wanted is None else [topic.name for topic in wanted]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE_ID, host=self.host, port=self.port)],
            cluster_id="scripted",
            controller_id=NODE_ID,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.partition_counts:
            return MetadataResponseTopic(error_code=3, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=name.encode().ljust(16, b"."),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=self.leader,
                    leader_epoch=1,
                    replica_nodes=[NODE_ID],
                    isr_nodes=[NODE_ID],
                )
                for index in range(self.partition_counts[name])
            ],
        )

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        # A client that gives up resets the connection.
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4:
                if not self._answer(connection, stream.read(int.from_bytes(prefix, "big"))):
                    return

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        header, position = headers.read_request_header(memoryview(frame))
        api = ApiKey(header.api_key)
        version = min(header.api_version, valid_versions(api)[1])
        message = decode(request_class(api), version, frame[position:])
        self.requests.append((api, header.api_version, message))
        script = self._script[api]
        answer = script.popleft() if script else self._standing.get(api, Act.SILENCE)
        reply = answer if isinstance(answer, Message | bytes | Act) else answer(message)
        if reply is Act.CLOSE:
            return False
        if isinstance(reply, bytes):
            connection.sendall(reply)
        elif isinstance(reply, Message):
            body_version = version
            if api is ApiKey.API_VERSIONS and getattr(reply, "error_code", 0):
                body_version = 0
            body = encode(reply, body_version)
            header_version = response_header_version(api, version)
            prefix = headers.response_prefix(header.correlation_id, header_version, len(body))
            connection.sendall(prefix + body)
        return True
