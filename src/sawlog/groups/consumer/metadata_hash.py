"""The metadata hash of a group (KIP-1101): it changes when a subscribed topic is created, deleted,
extended or moved to other racks. It is bit for bit Kafka's.
"""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

import xxhash

from sawlog.core.ids import NodeId, TopicName

if TYPE_CHECKING:
    from sawlog.cluster.metadata_image import MetadataImage, TopicImage

_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_ID_IN = struct.Struct(">qq")
_ID_OUT = struct.Struct("<qq")
_MAGIC = b"\0"
_SIGN = 1 << 63


class MetadataHashes:
    """Caches the hash of each topic until the topic's image changes.

    The rack of a broker is the last one known, so that a broker that is down changes no hash.
    """

    def __init__(self) -> None:
        self._topics: dict[str, tuple[TopicImage, int]] = {}
        self._racks: dict[NodeId, str] = {}
        self._brokers: object = None

    def of(self, names: Iterable[str], image: "MetadataImage") -> int:
        """The hash of a group that is subscribed to `names`; 0 if none of them exists."""
        self._update_racks(image)
        hashes = []
        for name in sorted(names):
            topic = image.topics.get(TopicName(name))
            if topic is not None:
                hashes.append(_LONG.pack(self._topic(topic)))
            else:
                self._topics.pop(name, None)
        return _hash(b"".join(hashes)) if hashes else 0

    def _update_racks(self, image: "MetadataImage") -> None:
        if image.brokers is self._brokers:
            return
        self._brokers = image.brokers
        for broker in image.brokers.values():
            if broker.rack is not None and self._racks.get(broker.id) != broker.rack:
                self._racks[broker.id] = broker.rack
                self._topics.clear()

    def _topic(self, topic: "TopicImage") -> int:
        known = self._topics.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        value = _hash(self._bytes(topic))
        self._topics[topic.name] = (topic, value)
        return value

    def _bytes(self, topic: "TopicImage") -> bytes:
        parts = [_MAGIC, _ID_OUT.pack(*_ID_IN.unpack(topic.id)), _string(topic.name)]
        parts.append(_INT.pack(len(topic.partitions)))
        racks: dict[tuple[NodeId, ...], bytes] = {}
        for index, partition in enumerate(topic.partitions):
            parts.append(_INT.pack(index))
            if partition.replicas not in racks:
                racks[partition.replicas] = self._rack_bytes(partition.replicas)
            parts.append(racks[partition.replicas])
        return b"".join(parts)

    def _rack_bytes(self, replicas: tuple[NodeId, ...]) -> bytes:
        racks = sorted(self._racks[node] for node in replicas if node in self._racks)
        return b"".join(_INT.pack(_units(rack)) + _string(rack) for rack in racks)


def _units(text: str) -> int:
    """The length in UTF-16 code units, as in Java."""
    return len(text.encode("utf-16-le")) // 2


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT.pack(len(units) // 2)


def _hash(data: bytes) -> int:
    value = xxhash.xxh3_64_intdigest(data)
    return value - 2 * _SIGN if value & _SIGN else value
