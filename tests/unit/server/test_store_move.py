"""The move of an embedded store to ZooKeeper: what arrives, what is refused, and every crash."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.cluster.moved_store import MOVE, MOVED
from sawlog.cluster.store_journal import create_store
from sawlog.cluster.store_tree import StoreTree
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.core.ports import DiskError
from sawlog.core.store import Create, NoNode, Operation, Store
from sawlog.server.address import Address
from sawlog.server.coordination import (
    ZooKeeperOptions,
    refuse_embedded_store,
    require_embedded_store,
)
from sawlog.server.disk import RealDisk
from sawlog.server.store_move import CannotMove, StoreMove
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_store import StoreService
from sawlog.storage.log_files import META_PROPERTIES, MetaProperties, encode_meta_properties

CLUSTER, DIRECTORY = "cluster-of-the-move", "directory-of-the-move"
ADDRESS = ZooKeeperAddress((Address("127.0.0.1", 2181),), "/sawlog")
OPTIONS = ZooKeeperOptions(ADDRESS, 6_000, 6_000, None)
TOPIC_ID = bytes(range(16))


class Crash(Exception):
    """The process ends here."""


class Steps:
    """Counts the writes of a move, and raises Crash at the end of number `crash_at`."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.count = 0
        self._crash_at = crash_at

    def done(self) -> None:
        self.count += 1
        if self.count == self._crash_at:
            raise Crash


class CrashingDisk(RealDisk):
    def __init__(self, root: Path, steps: Steps) -> None:
        super().__init__(str(root), lambda action: action())
        self._steps = steps

    def replace(self, path: str, data: Any) -> None:
        super().replace(path, data)
        self._steps.done()

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._steps.done()


class CrashingStore:
    """Passes calls to a simulated store. A crash comes after a write that has taken effect."""

    def __init__(self, store: Store, steps: Steps) -> None:
        self.get, self.children, self._store, self._steps = store.get, store.children, store, steps

    def multi(self, operations: Sequence[Operation], done: Callable[[Any], None]) -> None:
        self._store.multi(operations, done)
        self._steps.done()


class World:
    """A data directory with an embedded store, and a ZooKeeper with an empty tree."""

    def __init__(self, root: Path, topics: int = 3) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.schedule = Schedule(1)
        self.service = StoreService(self.schedule)
        disk = RealDisk(str(root), lambda action: action())
        self.source = StoreTree()
        self.source.apply(store_nodes(topics), owner=0)
        self.source.apply([Create("/controller", b"me", ephemeral=True)], owner=7)
        create_store(disk, self.source)
        meta = MetaProperties(CLUSTER, 1, DIRECTORY)
        disk.replace(META_PROPERTIES, encode_meta_properties(meta))
        disk.close()

    def move(self, steps: Steps | None = None, options: ZooKeeperOptions = OPTIONS) -> Steps:
        steps = steps or Steps()
        disk = CrashingDisk(self.root, steps)
        try:
            move = StoreMove(disk, options)
            store: Any = CrashingStore(self.service.connect(), steps)
            asyncio.run(self._pumped(move._move(store)))
        finally:
            disk.close()
        return steps

    async def _pumped(self, moving: Any) -> None:
        task = asyncio.ensure_future(moving)
        while not task.done():
            self.schedule.step()
            await asyncio.sleep(0)
        await task

    def settle(self) -> None:
        self.schedule.run(lambda: False)

    def is_usable(self, check: Callable[[RealDisk], None]) -> bool:
        disk = RealDisk(str(self.root), lambda action: action())
        try:
            check(disk)
        except DiskError:
            return False
        finally:
            disk.close()
        return True

    @property
    def starts_embedded(self) -> bool:
        return self.is_usable(require_embedded_store)

    @property
    def starts_with_zookeeper(self) -> bool:
        is_tree_ready = self.service.tree.exists(MOVE) is None
        return is_tree_ready and self.is_usable(refuse_embedded_store)

    def moved(self) -> dict[str, bytes]:
        """All nodes in ZooKeeper."""
        return {path: data.encode("latin-1") for path, data, *_ in self.service.tree.dump()}


def store_nodes(topics: int) -> list[Operation]:
    operations: list[Operation] = [Create(path, data) for path, data in znodes.PERSISTENT_PATHS]
    operations.append(Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER)))
    operations.append(Create(znodes.PRODUCER_ID_BLOCK, b'{"block_end":"1999"}'))
    for number in range(topics):
        name = f"t{number}"
        member = InSyncMember(NodeId(1), 42, "")
        state = znodes.PartitionState(NodeId(1), LeaderEpoch(number), (member,), 3)
        operations += [
            Create(znodes.config_path(name), znodes.encode_configs({"retention.ms": "5"})),
            Create(znodes.topic_path(name), znodes.encode_assignment(TOPIC_ID, [[1]])),
            Create(znodes.partitions_path(name)),
            Create(znodes.partition_path(name, 0)),
            Create(znodes.state_path(name, 0), znodes.encode_state(state)),
        ]
    return operations


def expected(world: World) -> dict[str, bytes]:
    """The nodes of the embedded store; in the states, only the members differ."""
    nodes = {}
    for path, data, _, owner, *_ in world.source.dump():
        if owner:
            continue
        nodes[path] = data.encode("latin-1")
        if path.endswith("/state"):
            state = json.loads(data)
            state["members"] = [{"broker": 1, "broker_epoch": 0, "directory_id": DIRECTORY}]
            nodes[path] = json.dumps(state, separators=(",", ":")).encode()
    return nodes


def test_everything_but_ephemeral_nodes_is_moved(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.starts_embedded
    world.move()
    assert world.moved() == expected(world)
    assert not world.starts_embedded
    assert world.starts_with_zookeeper


def test_a_crash_after_any_write_leaves_one_usable_store_at_most_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    writes = World(tmp_path / "whole").move().count
    assert writes >= 5
    for crash_at in range(1, writes + 1):
        world = World(tmp_path / str(crash_at))
        with pytest.raises(Crash):
            world.move(Steps(crash_at))
        world.settle()
        assert not (world.starts_embedded and world.starts_with_zookeeper)
        has_cluster = znodes.CLUSTER_ID in world.moved()
        assert not (world.starts_embedded and has_cluster), crash_at
        if not world.starts_with_zookeeper:
            world.move()
        assert world.moved() == expected(world)
        assert world.starts_with_zookeeper
        assert not world.starts_embedded


def test_a_topic_deleted_between_two_attempts_is_not_moved(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(Crash):
        world.move(Steps(2))
    world.settle()
    assert "/brokers/topics/t2" in world.moved()
    for path in tmp_path.glob("store.*"):
        path.unlink()
    disk = RealDisk(str(tmp_path), lambda action: action())
    world.source = StoreTree()
    world.source.apply(store_nodes(topics=1), owner=0)
    create_store(disk, world.source)
    disk.close()
    world.move()
    assert world.moved() == expected(world)


@pytest.mark.parametrize(("found", "suggested"), [("zoo", "/sawlog"), ("sawlog", "/sawlog-2")])
def test_a_chroot_is_suggested_that_is_not_taken(
    tmp_path: Path, found: str, suggested: str
) -> None:
    world = World(tmp_path)
    world.service.tree.apply([Create(f"/{found}")], owner=0)
    root = ZooKeeperOptions(ADDRESS._replace(chroot=""), 6_000, 6_000, None)
    with pytest.raises(CannotMove, match=rf"such as 127.0.0.1:2181{suggested}$"):
        world.move(options=root)


def test_a_tree_that_is_not_empty_is_refused_and_unchanged(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.service.tree.apply([Create("/brokers")], owner=0)
    with pytest.raises(CannotMove, match=r"\(it has /brokers\).* 127.0.0.1:2181/sawlog-2$"):
        world.move()
    assert set(world.moved()) == {"/", "/brokers"}
    assert world.starts_embedded


def test_a_tree_that_another_directory_moves_to_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "first")
    with pytest.raises(Crash):
        world.move(Steps(1))
    world.settle()
    other = World(tmp_path / "second")
    meta = MetaProperties(CLUSTER, 1, "another-directory")
    (other.root / META_PROPERTIES).write_bytes(encode_meta_properties(meta))
    other.service, other.schedule = world.service, world.schedule
    with pytest.raises(CannotMove, match="another data directory is being moved"):
        other.move()


def test_a_moved_directory_and_one_without_a_store_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.move()
    with pytest.raises(CannotMove, match="it was moved already"):
        world.move()
    assert (tmp_path / MOVED).exists()
    (tmp_path / META_PROPERTIES).unlink()
    with pytest.raises(CannotMove, match="not the data directory of a broker"):
        world.move()


def test_a_running_broker_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    broker = RealDisk(str(tmp_path), lambda action: action())
    broker.lock()
    with pytest.raises(DiskError, match="another broker is running"):
        world.move()
    broker.close()
    with pytest.raises(NoNode):
        world.service.tree.get(MOVE)
