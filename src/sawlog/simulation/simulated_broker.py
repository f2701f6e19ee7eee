"""One broker on a simulated machine: boot it, send requests, crash it.

The broker is the real one, with the real embedded store and logs; disk, clock and client are
simulated from a seed. Requests are encoded and decoded as on a socket, so a test sees what a client
would see.
"""

from collections.abc import Sequence
from typing import Any

from sawlog.broker.assembly import Ports, assemble
from sawlog.broker.broker import Broker
from sawlog.cluster.broker_registration import Registration
from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.core.config import BrokerConfig
from sawlog.core.ids import NodeId
from sawlog.core.ports import FileSlice, Part
from sawlog.protocol.apis import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.headers import RequestHeader, read_response_header, write_request_header
from sawlog.protocol.schema import Message
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.stepped_cleaner import SteppedCleaner

NODE = NodeId(1)
BOOT_STEPS = 20_000


class SimulatedClient:
    """The client of a simulated connection."""

    def __init__(self) -> None:
        self.host = "client"
        self.port = 1


class Call:
    """One request: the broker's Exchange, with the decoded response in `answered`.

    File slices are read when the broker answers, as a server that sends at once does.
    """

    def __init__(self, client: SimulatedClient, api: ApiKey, version: int) -> None:
        self._api = api
        self._version = version
        self.client = client
        self.answered: Any = None
        self.is_done = False
        self.closed: str | None = None

    def answer(self, parts: Sequence[Part]) -> None:
        assert not self.is_done, "a request was answered twice"
        self.is_done = True
        if not parts:
            return
        frame = b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)
        length = int.from_bytes(frame[:4], "big")
        assert length == len(frame) - 4, "the length prefix does not match the frame"
        view = memoryview(frame)[4:]
        header_version = response_header_version(self._api, self._version)
        _, position = read_response_header(view, header_version)
        self.answered = decode(response_class(self._api), self._version, view[position:])

    def close(self, reason: str) -> None:
        self.is_done = True
        self.closed = reason


class SimulatedMachine:
    """A disk, and one broker process after the other on it."""

    def __init__(self, seed: int, **settings: str) -> None:
        self.schedule = Schedule(seed)
        self.random = SeededRandom(seed)
        self.disk = SimulatedDisk(self.schedule.soon)
        self._config = BrokerConfig(
            {name.replace("_", "."): value for name, value in settings.items()}
        )
        self._client = SimulatedClient()
        self._correlation_id = 0
        self._broker: Broker | None = None
        self._is_ready = False
        self._failure: Exception | None = None

    @property
    def broker(self) -> Broker:
        """The process that was booted last."""
        assert self._broker is not None, "the machine was not booted"
        return self._broker

    def boot(self) -> None:
        """Start a broker on the present disk, until it can serve requests."""
        schedule = self.schedule
        self._is_ready = False
        store = EmbeddedStore(self.disk, schedule)
        self._broker = assemble(
            Ports(
                schedule,
                schedule,
                self.random,
                self.disk,
                store,
                start_cleaner=lambda _: SteppedCleaner(self.disk, schedule),
            ),
            self._config,
            Registration(NODE, "simulated", 9092, None),
            self._image_applied,
        )
        self._broker.start()
        assert schedule.run(lambda: self._is_ready, max_steps=BOOT_STEPS), (
            f"the broker does not start: {self._failure!r}"
        )

    def _image_applied(self, error: Exception | None) -> None:
        if error is None:
            self._is_ready = True
        else:
            self._failure = error

    def lose_power(self) -> None:
        """Crash the process; the disk keeps what was synced, and perhaps more."""
        self.schedule.clear()
        self.disk.power_loss(self.random)

    def kill(self) -> None:
        """kill -9: the process is gone; the page cache survives."""
        self.schedule.clear()
        self.disk.kill()

    def stop(self) -> None:
        """Stop the broker cleanly."""
        stopped: list[bool] = []
        self.broker.stop(lambda: stopped.append(True))
        assert self.schedule.run(lambda: bool(stopped)), "the broker does not stop"
        self.kill()

    def send(
        self, message: Message, version: int | None = None, *, client_id: str = "simulation"
    ) -> Call:
        """Send a request without waiting for its response."""
        key = message.SCHEMA.api_key
        assert key is not None
        api = ApiKey(key)
        if version is None:
            version = valid_versions(api)[1]
        self._correlation_id += 1
        header = RequestHeader(int(api), version, self._correlation_id, client_id)
        frame = bytearray(write_request_header(header, request_header_version(api, version)))
        frame += encode(message, version)
        call = Call(self._client, api, version)
        self.broker.receive(call, memoryview(frame))
        return call

    def ask(self, message: Message, version: int | None = None) -> Any:
        """Send a request, and run the schedule until its response."""
        call = self.send(message, version)
        assert self.schedule.run(lambda: call.is_done), f"no answer to {message}: {self._failure!r}"
        assert self._failure is None, f"an image could not be applied: {self._failure!r}"
        assert call.closed is None, f"connection closed: {call.closed}"
        return call.answered
