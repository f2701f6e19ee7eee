"""The consumer of the Kafka paper: a group that coordinates itself through ZooKeeper alone.

No broker keeps state of the group. Members register in ZooKeeper, watch each other, the brokers and
the topics, and each computes which partitions it owns. Reading works as in `Consumer`.
"""

import os
import socket
import time
import uuid
import weakref

from sawlog.client.consumer.consumer import (
    DEFAULT_AUTO_COMMIT_MS,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    Consumer,
)
from sawlog.client.consumer.isolation import Isolation
from sawlog.client.consumer.membership.group_membership import GroupMembership
from sawlog.client.consumer.membership.membership_protocol import GroupSettings
from sawlog.client.consumer.message_streams import MessageStream
from sawlog.client.consumer.start_positions import OffsetReset
from sawlog.client.errors import NoBrokerReachable
from sawlog.client.extras import missing_package
from sawlog.client.net.retries import Deadline
from sawlog.client.zookeeper_consumer.connect_string import check_connect_string
from sawlog.client.zookeeper_consumer.group_nodes import BROKER_IDS, check_name

try:
    from sawlog.client.zookeeper_consumer.group_registry import GroupRegistry
    from sawlog.client.zookeeper_consumer.membership import ZooKeeperMembership
    from sawlog.client.zookeeper_consumer.session import ZooKeeperSession
except ImportError as error:
    raise ImportError(missing_package("ZooKeeperConsumer", "zookeeper", error)) from error

DEFAULT_SESSION_TIMEOUT_MS = 6_000
DEFAULT_CONNECTION_TIMEOUT_MS = 18_000
_LOOK_MS = 500  # between looks for brokers: the node that would be watched may not exist yet

_RESETS = {
    "smallest": OffsetReset.EARLIEST,
    "earliest": OffsetReset.EARLIEST,
    "largest": OffsetReset.LATEST,
    "latest": OffsetReset.LATEST,
}


class ZooKeeperConsumer(Consumer):
    """A member of a group that is coordinated through ZooKeeper, without a group coordinator.

    `zookeeper` is the ensemble of the brokers, `HOST:PORT[,HOST:PORT...][/chroot]`; the brokers are
    found there. `credentials` is `user:password` if the brokers have them: the group's nodes are
    then closed to others, too. `consumer_id` must be unique in the group; the default is.

    The offsets of records of earlier polls are committed to ZooKeeper every `auto_commit_ms`
    (auto.commit.interval.ms), before partitions are released and on close; None leaves commits to
    `commit`. `offset_reset` (auto.offset.reset) is "smallest" or "earliest", "largest" or "latest".

    `session_timeout_ms` (zookeeper.session.timeout.ms) is how long a killed member still owns its
    partitions; it must not be above the ensemble's maxSessionTimeout. A member that cannot reach
    ZooKeeper returns no records, and stops before its session can expire.

    NoBrokerReachable or ClientError if there is no session, or no registered broker, within
    `connection_timeout_ms`.
    """

    def __init__(
        self,
        zookeeper: str,
        group: str,
        *,
        consumer_id: str | None = None,
        credentials: str | None = None,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        connection_timeout_ms: float = DEFAULT_CONNECTION_TIMEOUT_MS,
        auto_commit_ms: float | None = DEFAULT_AUTO_COMMIT_MS,
        offset_reset: OffsetReset | str = OffsetReset.EARLIEST,
        isolation: Isolation = "read_uncommitted",
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        reset = _offset_reset(offset_reset)
        address = check_connect_string(zookeeper)
        self.consumer_id = check_name("consumer id", consumer_id or _new_consumer_id(group))
        self._zookeeper = ZooKeeperSession(
            address, session_timeout_ms=session_timeout_ms, credentials=credentials
        )
        self._registry = GroupRegistry(self._zookeeper, group, self.consumer_id)
        self._zookeeper.start(connection_timeout_ms)
        try:
            super().__init__(
                self._find_brokers(address, connection_timeout_ms),
                group=group,
                auto_commit_ms=auto_commit_ms,
                isolation=isolation,
                offset_reset=reset,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
                max_decompressed_bytes=max_decompressed_bytes,
            )
        except BaseException:
            self._zookeeper.close()
            raise
        self._zookeeper.report_to(self._wakeup.signal)
        weakref.finalize(self, _close_in, os.getpid(), self._zookeeper)

    def _find_brokers(self, address: str, timeout_ms: float) -> list[str]:
        deadline = Deadline(timeout_ms)
        while not (brokers := self._registry.brokers()):
            if deadline.has_passed:
                raise NoBrokerReachable(
                    f"no broker is registered in ZooKeeper at {address} ({BROKER_IDS}): is one"
                    " running, and is the chroot that of its zookeeper.connect?"
                )
            self._zookeeper.wait_for_change(Deadline(min(_LOOK_MS, deadline.remaining_ms)))
        return [str(broker) for broker in brokers]

    def _new_session(
        self,
        group: str | GroupSettings,  # noqa: ARG002 - the registry has it
        auto_commit_ms: float | None,
        require_stable: bool,  # noqa: ARG002 - ZooKeeper has no pending offsets
    ) -> GroupMembership:
        self._membership = ZooKeeperMembership(
            self._zookeeper,
            self._registry,
            self.consumer_id,
            self._cluster,
            self._partitions,
            self._begin,
            auto_commit_ms=auto_commit_ms,
        )
        return self._membership

    def message_streams(self, topic: str, count: int) -> list[MessageStream]:
        """As `Consumer.message_streams`; this member takes `count` shares of the topic."""
        self._membership.set_threads(max(count, 1))
        return super().message_streams(topic, count)


def _offset_reset(value: OffsetReset | str) -> OffsetReset:
    reset = _RESETS.get(value) if isinstance(value, str) else value
    if reset is None:
        raise ValueError(f"offset_reset must be one of {', '.join(_RESETS)}, not {value!r}")
    return reset


def _new_consumer_id(group: str) -> str:
    """Return an id as Kafka makes them: the host, the time and a random part."""
    host = "".join(c if c.isalnum() or c in ".-" else "-" for c in socket.gethostname())
    return f"{group}_{host}-{int(time.time() * 1_000)}-{uuid.uuid4().hex[:8]}"


def _close_in(process: int, session: ZooKeeperSession) -> None:
    """Close the session of a consumer that was not closed, but not in a forked process."""
    if os.getpid() == process:
        session.close()
