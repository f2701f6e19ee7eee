"""`python -m bench.zookeeper_fan_out`: what it costs a broker to follow partitions in ZooKeeper.

It compares one watch per partition state with a watch on a node of change notifications, on a real
ZooKeeper: the reads of a start and of a reconnection, and a change of a third of all partitions.
The figures are in docs/decisions/0014-zookeeper-fan-out.md.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import uvloop

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.cluster.store_view import StoreView
from sawlog.cluster.store_watcher import StoreWatcher
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.core.store import Create, Delete, Operation, SessionState, SetData, StoreError, Watch
from sawlog.server.address import Address
from sawlog.server.clock import LoopTimer
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_process import ZooKeeperServer, is_serving
from sawlog.server.zookeeper_store import ZooKeeperStore
from tools.kafka_node import free_port

TOPICS = 50
OPERATIONS = 1000
CONNECTED = SessionState.CONNECTED
NOTIFICATIONS = "/isr_change_notification"
START_TIMEOUT_S = 60


class Cost(NamedTuple):
    """Of one measured action: elapsed time, and CPU time of the client and of ZooKeeper."""

    seconds: float
    client_cpu: float
    server_cpu: float


class Bench:
    """A store on a ZooKeeper that has `partitions` partition states."""

    def __init__(self, store: ZooKeeperStore, server_pid: int, partitions: int) -> None:
        self.store = store
        self._server_pid = server_pid
        self.loop = asyncio.get_running_loop()
        per_topic = partitions // TOPICS
        self.topics = {f"topic-{number:03d}": per_topic for number in range(TOPICS)}
        self.states = [
            znodes.state_path(topic, index)
            for topic, count in self.topics.items()
            for index in range(count)
        ]
        self.changed = self.states[::3]
        self.costs: dict[str, list[Cost]] = {}

    @contextmanager
    def measured(self, what: str) -> Iterator[None]:
        before = self._now()
        yield
        cost = Cost(*(after - start for after, start in zip(self._now(), before, strict=True)))
        self.costs.setdefault(what, []).append(cost)

    def _now(self) -> tuple[float, float, float]:
        fields = Path(f"/proc/{self._server_pid}/stat").read_text().rpartition(")")[2].split()
        server_cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), time.process_time(), server_cpu

    async def call(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        answered: asyncio.Future[Any] = self.loop.create_future()
        ask(answered.set_result)
        answer = await answered
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def write(self, operations: Iterable[Operation]) -> None:
        left = iter(operations)
        while some := tuple(islice(left, OPERATIONS)):
            await self.call(partial(self.store.multi, some))

    async def read(self, paths: Sequence[str], watch: Watch | None = None) -> None:
        """Read nodes, all requests in flight at once."""
        await asyncio.gather(*(self.call(partial(self._get, path, watch)) for path in paths))

    def _get(self, path: str, watch: Watch | None, done: Callable[[Any], None]) -> None:
        self.store.get(path, done, watch)

    async def create_topics(self) -> None:
        nodes = {NOTIFICATIONS: b"", **dict(znodes.PERSISTENT_PATHS)}
        await self.write(Create(path, data) for path, data in nodes.items())
        await self.write([Create(znodes.CLUSTER_ID, znodes.encode_cluster_id("bench"))])
        for number, (topic, count) in enumerate(self.topics.items()):
            replicas = [[1, 2, 3]] * count
            await self.write(
                [
                    Create(znodes.config_path(topic), znodes.encode_configs({})),
                    Create(
                        znodes.topic_path(topic),
                        znodes.encode_assignment((number + 1).to_bytes(16), replicas),
                    ),
                    Create(znodes.partitions_path(topic)),
                    *(
                        operation
                        for index in range(count)
                        for operation in (
                            Create(znodes.partition_path(topic, index)),
                            Create(znodes.state_path(topic, index), state(0)),
                        )
                    ),
                ]
            )

    async def reconnect(self) -> None:
        """End all watches, as a lost connection does, with a new session."""
        closed: asyncio.Future[None] = self.loop.create_future()
        self.store.close(lambda: closed.set_result(None))
        await closed
        self.store = await connected(self.store.address)

    # What is compared

    async def load_view(self) -> None:
        """The broker's own code: read and watch everything, decode it, build the view. Then the
        same after a lost connection, in the same session."""
        view, loaded = StoreView(), asyncio.Event()
        watcher = StoreWatcher(self.store, LoopTimer(self.loop), view, loaded.set)
        self.store.on_state(lambda state: watcher.start() if state is CONNECTED else None)
        session = self.store.session_id
        with self.measured("the broker's view: start"):
            watcher.start()
            await loaded.wait()
        loaded.clear()
        with self.measured("the broker's view: reconnection"):
            connection = self.store._client._connection  # noqa: SLF001 - kazoo cannot be asked to
            connection._socket.shutdown(socket.SHUT_RDWR)  # noqa: SLF001
            await loaded.wait()
        assert self.store.session_id == session
        assert sum(len(topic.states) for topic in view.topics.values()) == len(self.states)
        watcher.stop()

    async def read_states(self) -> None:
        with self.measured("read all states, without watches"):
            await self.read(self.states)

    async def watch_states(self, epoch: int) -> None:
        """One watch per state: read all, then follow the change of a third of them."""
        all_read = asyncio.Event()
        left = len(self.changed)

        def got(_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_read.set()

        def fired(event: Any) -> None:
            self.store.get(event.path, got, lambda _: None)

        with self.measured("read all states, one watch each"):
            await self.read(self.states, fired)
        with self.measured("a third changes: one watch each"):
            await self.write(SetData(path, state(epoch)) for path in self.changed)
            await all_read.wait()

    async def follow_notifications(self, epoch: int) -> None:
        """One watch on a node whose children name the changed partitions."""
        notified = asyncio.Event()
        await self.call(
            lambda done: self.store.children(NOTIFICATIONS, done, lambda _: notified.set())
        )
        with self.measured("a third changes: notifications"):
            await self.write(SetData(path, state(epoch)) for path in self.changed)
            content = json.dumps({"version": 1, "partitions": self.changed}).encode()
            await self.write([Create(f"{NOTIFICATIONS}/n-", content, sequential=True)])
            await notified.wait()
            (name,) = await self.call(lambda done: self.store.children(NOTIFICATIONS, done))
            node = await self.call(lambda done: self.store.get(f"{NOTIFICATIONS}/{name}", done))
            await self.read(json.loads(node.data)["partitions"])
        await self.write([Delete(f"{NOTIFICATIONS}/{name}")])


def state(epoch: int) -> bytes:
    members = tuple(InSyncMember(NodeId(node), 7, "directory") for node in (1, 2, 3))
    return znodes.encode_state(
        znodes.PartitionState(NodeId(1), LeaderEpoch(epoch), members, controller_epoch=1)
    )


async def connected(address: ZooKeeperAddress) -> ZooKeeperStore:
    store = ZooKeeperStore(address, asyncio.get_running_loop(), session_timeout_ms=18_000)
    store.start()
    while store.session_id == 0:
        await asyncio.sleep(0.01)
    return store


async def run(address: ZooKeeperAddress, pid: int, partitions: int, rounds: int) -> Bench:
    bench = Bench(await connected(address), pid, partitions)
    await bench.create_topics()
    for number in range(1, rounds + 1):
        await bench.reconnect()
        await bench.read_states()
        await bench.reconnect()
        await bench.watch_states(2 * number)
        await bench.reconnect()
        await bench.follow_notifications(2 * number + 1)
        await bench.reconnect()
        await bench.load_view()
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        address = Address("127.0.0.1", free_port())
        server = ZooKeeperServer(Path(directory), address)
        server.write_config()
        process = subprocess.Popen(server.command())
        try:
            assert is_serving(address, START_TIMEOUT_S), "ZooKeeper did not start"
            where = ZooKeeperAddress((address,), "/bench")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                bench = runner.run(run(where, process.pid, options.partitions, options.rounds))
        finally:
            process.kill()
            process.wait()
    print(f"{len(bench.states)} partitions, medians of {options.rounds} rounds")
    for what, costs in bench.costs.items():
        seconds, client, server_cpu = (median(values) for values in zip(*costs, strict=True))
        print(f"{what:40} {seconds:6.2f} s, CPU {client:6.2f} s client, {server_cpu:6.2f} s server")


if __name__ == "__main__":
    main()
