"""Members of a group that is coordinated through ZooKeeper, and what they delivered."""

import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from sawlog.client import ConsumedRecord, RebalanceListener, TopicPartition, ZooKeeperConsumer
from sawlog.server.zookeeper_address import ZooKeeperAddress
from support.process import ServerProcess

POLL_MS = 50
SESSION_TIMEOUT_MS = 1_500


class GroupTree:
    """The group's nodes as another client sees them; any thread may look."""

    def __init__(self, address: ZooKeeperAddress, group: str) -> None:
        self._client = KazooClient(str(address))
        self._client.start()
        self._root = f"/consumers/{group}"

    def _get(self, path: str) -> tuple[bytes, Any] | None:
        try:
            found: tuple[bytes, Any] = self._client.get(f"{self._root}/{path}")
        except NoNodeError:
            return None
        return found

    def members(self) -> dict[str, bytes]:
        try:
            names = self._client.get_children(f"{self._root}/ids")
        except NoNodeError:
            return {}
        found = {name: self._get(f"ids/{name}") for name in sorted(names)}
        return {name: node[0] for name, node in found.items() if node is not None}

    def owner(self, topic: str, partition: int) -> str | None:
        """Return the consumer id in an owner node."""
        found = self._get(f"owners/{topic}/{partition}")
        return None if found is None else found[0].decode().rpartition("-")[0]

    def owner_created(self, topic: str, partition: int) -> int | None:
        found = self._get(f"owners/{topic}/{partition}")
        return None if found is None else int(found[1].czxid)

    def owners(self, topic: str, partitions: int) -> list[str | None]:
        return [self.owner(topic, index) for index in range(partitions)]

    def offsets(self, topic: str, partitions: int) -> list[int | None]:
        found = [self._get(f"offsets/{topic}/{index}") for index in range(partitions)]
        return [None if node is None else int(node[0]) for node in found]

    def delete_owner(self, topic: str, partition: int) -> None:
        self._client.delete(f"{self._root}/owners/{topic}/{partition}")

    def close(self) -> None:
        self._client.stop()
        self._client.close()


class Deliveries:
    """The offsets delivered to all members. A record counts only if, at its delivery, its partition
    had the owner node of the member that got it; others are `wrong`."""

    def __init__(self, tree: GroupTree) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self.offsets: dict[int, set[int]] = defaultdict(set)
        self.wrong: list[str] = []

    def add(self, consumer_id: str, records: Iterable[ConsumedRecord]) -> None:
        by_partition: dict[tuple[str, int], set[int]] = defaultdict(set)
        for record in records:
            by_partition[record.topic, record.partition].add(record.offset)
        for (topic, partition), offsets in by_partition.items():
            owner = self._tree.owner(topic, partition)
            with self._lock:
                self.offsets[partition] |= offsets
                if owner != consumer_id:
                    self.wrong.append(f"{topic}-{partition} of {owner} went to {consumer_id}")

    def has_all(self, counts: Sequence[int]) -> bool:
        with self._lock:
            return all(len(self.offsets[index]) == count for index, count in enumerate(counts))


class Member(RebalanceListener):
    """A consumer that polls in a thread of its own until `leave`."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        group: str,
        topic: str,
        deliveries: Deliveries,
        **settings: Any,
    ) -> None:
        settings = {"session_timeout_ms": SESSION_TIMEOUT_MS, "auto_commit_ms": 100} | settings
        self.consumer = ZooKeeperConsumer(str(address), group, **settings)
        self.id = self.consumer.consumer_id
        self.owned: set[TopicPartition] = set()
        self.lost_partitions: list[TopicPartition] = []
        self.failure: BaseException | None = None
        self.delivered = 0
        self._deliveries = deliveries
        self._is_over = threading.Event()
        self.consumer.subscribe([topic], listener=self)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned.update(partitions)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned.difference_update(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked(partitions)
        self.lost_partitions += partitions

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                records = self.consumer.poll(POLL_MS)
                self._deliveries.add(self.id, records)
                self.delivered += len(records)
            self.consumer.close()
        except BaseException as failure:
            self.failure = failure
            raise

    def leave(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self.failure is None, self.failure


PROGRAM = """
import sys
from sawlog.client import ZooKeeperConsumer
address, group, topic, session_timeout_ms = sys.argv[1:]
consumer = ZooKeeperConsumer(
    address, group, session_timeout_ms=int(session_timeout_ms), auto_commit_ms=100
)
consumer.subscribe([topic])
print("member", consumer.consumer_id)
while True:
    for record in consumer.poll(50):
        print("record", record.partition, record.offset)
"""


class MemberProcess:
    """A member in a process of its own, to be killed or stopped."""

    def __init__(self, address: ZooKeeperAddress, group: str, topic: str) -> None:
        arguments = [str(address), group, topic, str(SESSION_TIMEOUT_MS)]
        self.process = ServerProcess([sys.executable, "-c", PROGRAM, *arguments])
        self.id = self.process.wait_for_line(r"^member (?P<id>\S+)")["id"]

    def delivered(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = defaultdict(set)
        for line in self.process.lines:
            words = line.split()
            if len(words) == 3 and words[0] == "record":
                found[int(words[1])].add(int(words[2]))
        return found
