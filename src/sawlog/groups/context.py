"""The environment of the group machine: clock, random numbers, timers, config, metadata image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sawlog.cluster.metadata_image import ConfigKind, ConfigResource
from sawlog.core.config_groups import broker_synonym, limited, parse_group_value
from sawlog.core.config_values import ConfigError
from sawlog.core.event_logger import EventLogger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.cluster.metadata_image import MetadataImage
    from sawlog.coordinator.plan import Timers
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Clock, Random

logger = EventLogger(__name__)


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

    def group_setting(self, group_id: str, name: str) -> int:
        """Return a setting of a group in force: its own within the broker's limits, else the
        broker's."""
        default: int = self.config[broker_synonym(name)]
        configs = self.image.configs
        found = configs.get(ConfigResource(ConfigKind.GROUP, group_id)) if configs else None
        text = None if found is None else found.configs.get(name)
        if text is None:
            return default
        try:
            value = parse_group_value(name, text)
        except ConfigError as error:  # stored by another version
            logger.error("group setting ignored", group=group_id, reason=str(error))
            return default
        return limited(self.config, name, value) if isinstance(value, int) else default

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
