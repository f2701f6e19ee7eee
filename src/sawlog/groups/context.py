"""The environment of the group machine: clock, random numbers, timers, config, metadata image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.plan import Timers
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Clock, Random


@dataclass(frozen=True, slots=True)
class GroupContext:
    clock: "Clock"
    random: "Random"
    timers: "Timers"
    config: "BrokerConfig"
    read_image: "Callable[[], MetadataImage]"

    @property
    def image(self) -> "MetadataImage":
        return self.read_image()

    def new_uuid(self) -> str:
        """A random UUID (version 4) in Java's text format."""
        data = bytearray(self.random.bytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = data.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Caller(NamedTuple):
    """The sender of a request, from its header and its connection."""

    client_id: str
    host: str  # with a leading slash, as Kafka prints it
    api_version: int
