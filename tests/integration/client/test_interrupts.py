"""A client whose caller is interrupted, as by Ctrl-C, at any point of its code."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sawlog.client import producer as producer_package
from sawlog.client.errors import ConnectionLost
from sawlog.client.net import connection as connection_module
from sawlog.client.net.addresses import Address
from sawlog.client.net.connection import Connection
from sawlog.client.producer.producer import Producer
from sawlog.core.errors import ErrorCode
from sawlog.protocol import records
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.metadata_request import MetadataRequest
from sawlog.protocol.messages.metadata_response import MetadataResponse
from support.client.producing_broker import answering, batches, broker_with
from support.client.scripted_broker import ScriptedBroker
from support.tiers import rounds

GUARD_MS = 30_000
PRODUCER_FILES = Path(producer_package.__file__).parent.glob("*.py")
INTERRUPTED = {records.__file__, connection_module.__file__, *map(str, PRODUCER_FILES)}

PLACES = ("call", "c_return")


class Interruption:
    """Raises KeyboardInterrupt at the `at`-th point in these files where Python may run a signal
    handler: at the start of a function, and after a call into C.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self.came = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        sys.setprofile(self._happens)
        try:
            yield
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)

    def _happens(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.came or event not in PLACES or frame.f_code.co_filename not in INTERRUPTED:
            return
        self._left -= 1
        if self._left == 0:
            self.came = True
            raise KeyboardInterrupt


def stored(broker: ScriptedBroker) -> list[bytes | None]:
    """The values that a broker would store; batches with a known sequence are duplicates."""
    seen: set[tuple[int, int, int]] = set()
    values: list[bytes | None] = []
    for partition, header, found in batches(broker):
        number = (partition, header.producer_id, header.base_sequence)
        if number not in seen:
            seen.add(number)
            values += found
    return values


@pytest.mark.parametrize("stride", rounds(fast=13, long=4, soak=1))
def test_interrupts_never_lose_or_duplicate_a_record(stride: int) -> None:
    for at in count(1, stride):
        if not has_survived(Interruption(at)):
            break
    assert at > 500


def has_survived(interruption: Interruption) -> bool:
    """Send records through an interruption; returns whether it happened."""
    with broker_with(logs=2) as broker:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
        with Producer(broker.bootstrap, linger_ms=10_000, batch_bytes=200) as producer:
            sent: list[bytes] = []
            with interruption.armed():
                send(producer, [b"%d" % number * 50 for number in range(5)], sent)
            send(producer, [b"last"], sent)
        kept = stored(broker)
        assert set(sent) <= set(kept)
        assert len(set(kept)) == len(kept)
    return interruption.came


def send(producer: Producer, values: list[bytes], sent: list[bytes]) -> None:
    """Send and flush, and note in `sent` what `send` accepted."""
    for index, value in enumerate(values):
        producer.send("logs", value, partition=index % 2)
        sent.append(value)
    producer.flush(GUARD_MS)
    assert producer.delivered_count >= len(sent)


@pytest.mark.parametrize("method", ["sendall", "recv_into"])
def test_a_connection_interrupted_within_a_frame_is_not_used_again(method: str) -> None:
    with ScriptedBroker() as broker:
        connection = Connection(Address(broker.host, broker.port))
        connection._socket = Interrupted(connection._socket, method)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            connection.request(MetadataRequest(), MetadataResponse)
        assert not connection.is_usable
        with pytest.raises(ConnectionLost, match="METADATA was interrupted"):
            connection.request(MetadataRequest(), MetadataResponse)


class Interrupted:
    """A socket with one method that is interrupted."""

    def __init__(self, inner: socket.socket, method: str) -> None:
        self._inner = inner
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return self._interrupt if name == self._method else getattr(self._inner, name)

    def _interrupt(self, *_: object) -> None:
        raise KeyboardInterrupt
