"""Producer ids, allocated from the store in blocks of a thousand.

A broker allocates a block with a compare-and-set on `/latest_producer_id_block`, so that no two
brokers get the same one. After a crash the rest of a block is never used. The JSON is that of Kafka
with ZooKeeper.
"""

import json
from collections import deque
from collections.abc import Callable

from sawlog.cluster.callbacks import guarded
from sawlog.cluster.znodes import PRODUCER_ID_BLOCK
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId, ProducerId
from sawlog.core.store import (
    BadVersion,
    Create,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Result,
    SetData,
    Store,
    StoreError,
)

BLOCK_SIZE = 1000
FIRST_ID = 1 << 40
"""Far above the ids of a Kafka cluster, which begin at 0: a log copied from Kafka has the state of
its producers, and a new producer must not get the id of one of them."""
MAX_PRODUCER_ID = (1 << 63) - 1
Allocated = Callable[[ProducerId | KafkaError], None]
logger = EventLogger("sawlog.cluster.producer_ids")


def encode_block(node: NodeId, start: int) -> bytes:
    """Encode the block of ids that begins at `start`; the next block follows it."""
    fields = {
        "version": 1,
        "broker": node,
        "block_start": str(start),
        "block_end": str(start + BLOCK_SIZE - 1),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


class ProducerIds:
    """Returns ids in order; calls during the allocation of a block wait for it."""

    def __init__(self, store: Store, node: NodeId) -> None:
        self._store = store
        self._node = node
        self._next = 0
        self._end = 0
        self._waiting: deque[Allocated] = deque()
        self._is_allocating = False

    def next(self, done: Allocated) -> None:
        """Pass a new, unique id to `done`, which may be called before this returns."""
        if self._next < self._end and not self._waiting:
            self._next += 1
            done(ProducerId(self._next - 1))
            return
        self._waiting.append(done)
        if not self._is_allocating:
            self._is_allocating = True
            self._store.get(PRODUCER_ID_BLOCK, self._got_block)

    def _got_block(self, node: Node | StoreError) -> None:
        if isinstance(node, NoNode):
            self._allocate(FIRST_ID, None)
        elif isinstance(node, StoreError):
            self._fail(node)
        else:
            self._allocate(int(json.loads(node.data)["block_end"]) + 1, node.stat.version)

    def _allocate(self, start: int, version: int | None) -> None:
        end = start + BLOCK_SIZE
        if end > MAX_PRODUCER_ID:
            self._fail(StoreError(PRODUCER_ID_BLOCK, "no producer ids are left"))
            return
        data = encode_block(self._node, start)
        write: Operation = (
            Create(PRODUCER_ID_BLOCK, data)
            if version is None
            else SetData(PRODUCER_ID_BLOCK, data, version)
        )

        def allocated(result: list[Result] | StoreError) -> None:
            if isinstance(result, (BadVersion, NodeExists)):
                self._store.get(
                    PRODUCER_ID_BLOCK, self._got_block
                )  # another broker allocated first
            elif isinstance(result, StoreError):
                self._fail(result)
            else:
                self._next, self._end = start, end
                self._serve()

        self._store.multi([write], allocated)

    def _serve(self) -> None:
        self._is_allocating = False
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            guarded(self.next, done)

    def _fail(self, error: StoreError) -> None:
        logger.warning("cannot allocate a block of producer ids", reason=str(error))
        self._is_allocating = False
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            guarded(done, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)))
