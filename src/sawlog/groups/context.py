"""What the group machines know of the world around them."""

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
        """A random one (version 4), as Java prints it."""
        data = bytearray(self.random.bytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = data.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Caller(NamedTuple):
    """Who sends a request: as the header, the connection and the version tell."""

    client_id: str
    host: str  # as Kafka prints it, with a slash in front
    api_version: int
