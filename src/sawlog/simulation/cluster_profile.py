"""What the seed decides for a whole cluster: the flush policy, how logs are cleaned, the groups."""

from dataclasses import dataclass
from enum import Enum
from random import Random as Generator

from sawlog.core.config_broker import FLUSH_BEFORE_COMMIT

FLUSH_BY_SYSTEM = "os"
RETENTION_MS = 4_000


class Cleanup(Enum):
    """How the simulated topic loses records, if at all."""

    NONE = "no cleanup"
    RETENTION = "retention"
    DELETE_RECORDS = "DeleteRecords"
    COMPACTION = "compaction"


_SMALL_SEGMENTS = {"internal.segment.bytes": "1000", "file.delete.delay.ms": "200"}
_TOPIC_CONFIGS: dict[Cleanup, dict[str, str]] = {
    Cleanup.NONE: {},
    Cleanup.RETENTION: _SMALL_SEGMENTS
    | {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)},
    Cleanup.DELETE_RECORDS: _SMALL_SEGMENTS | {"cleanup.policy": "delete"},
    Cleanup.COMPACTION: _SMALL_SEGMENTS
    | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"},
}
_BROKER_SETTINGS: dict[Cleanup, dict[str, str]] = {
    Cleanup.NONE: {},
    Cleanup.RETENTION: {"log.retention.check.interval.ms": "500"},
    Cleanup.DELETE_RECORDS: {"log.retention.check.interval.ms": "500"},
    Cleanup.COMPACTION: {
        "log.cleaner.backoff.ms": "300",
        "log.cleaner.min.cleanable.ratio": "0",
    },
}


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    """The default is a cluster of the plainest kind."""

    flush_policy: str = FLUSH_BEFORE_COMMIT
    cleanup: Cleanup = Cleanup.NONE
    classic_members: int = 0
    transactional_clients: int = 0
    pipelining_clients: int = 0
    """The first ones of the transactional clients."""
    older_clients: int = 0
    """The last ones of the transactional clients."""

    @classmethod
    def of(cls, seed: int) -> "ClusterProfile":
        generator = Generator(seed * 104_729 + 7)
        policy = FLUSH_BY_SYSTEM if generator.random() < 0.3 else FLUSH_BEFORE_COMMIT
        cleanup = generator.choice((Cleanup.NONE, *Cleanup))
        classic_members = generator.choice((0, 0, 1, 2))
        transactional_clients = generator.choice((0, 1, 2, 3))
        return cls(
            policy,
            cleanup,
            classic_members,
            transactional_clients,
            generator.randint(0, transactional_clients),
            generator.randint(0, transactional_clients),
        )

    @property
    def commits_on_flush(self) -> bool:
        return self.flush_policy == FLUSH_BEFORE_COMMIT

    @property
    def is_compacted(self) -> bool:
        return self.cleanup is Cleanup.COMPACTION

    @property
    def topic_configs(self) -> dict[str, str]:
        return _TOPIC_CONFIGS[self.cleanup]

    @property
    def broker_settings(self) -> dict[str, str]:
        return {"flush.policy": self.flush_policy, **_BROKER_SETTINGS[self.cleanup]}

    def __str__(self) -> str:
        return (
            f"flush.policy={self.flush_policy}, {self.cleanup.value}, "
            f"{self.classic_members} classic members, "
            f"{self.transactional_clients} transactional clients "
            f"({self.pipelining_clients} pipelining, {self.older_clients} older)"
        )
