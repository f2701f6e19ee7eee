"""One broker's part in the cluster: its registration, its image, its turn at being controller.

member = Member(store, registration, config, clock, timer, random, on_image)
member.start()          # on_image(EMPTY_IMAGE, image) follows once the broker is registered
member.image            # the newest image
member.when(condition, timeout_ms, done)
member.stop(done)
"""

from collections.abc import Callable
from dataclasses import dataclass

from sawlog.cluster.image import MetadataImage
from sawlog.core.ids import NodeId

OnImage = Callable[[MetadataImage, MetadataImage], None]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker tells of itself under `/brokers/ids`."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None
