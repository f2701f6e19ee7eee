"""Producer ids, in blocks of a thousand that are taken in the store before the first is used.

A block is taken by a compare-and-set on `/latest_producer_id_block`, so that no two brokers have
the same one; what is left of a block at a crash is never used. Kafka's JSON of its ZooKeeper days.
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
"""Far above what a Kafka cluster comes to, which begins with 0: a log that came from one knows its
producers by these numbers, and a new producer here must not be taken for one of them."""
MAX_PRODUCER_ID = (1 << 63) - 1
Allocated = Callable[[ProducerId | KafkaError], None]
logger = EventLogger("sawlog.cluster.producer_ids")


class ProducerIds:
    """Hands out ids in order; those who ask while a block is being taken wait for it."""

    def __init__(self, store: Store, node: NodeId) -> None:
        self._store = store
        self._node = node
        self._next = 0
        self._end = 0
        self._waiting: deque[Allocated] = deque()
        self._is_taking = False

    def next(self, done: Allocated) -> None:
        """An id that nobody else has or had; `done` may be called at once."""
        if self._next < self._end and not self._waiting:
            self._next += 1
            done(ProducerId(self._next - 1))
            return
        self._waiting.append(done)
        if not self._is_taking:
            self._is_taking = True
            self._store.get(PRODUCER_ID_BLOCK, self._got_block)

    def _got_block(self, node: Node | StoreError) -> None:
        if isinstance(node, NoNode):
            self._take(FIRST_ID, None)
        elif isinstance(node, StoreError):
            self._refuse(node)
        else:
            self._take(int(json.loads(node.data)["block_end"]) + 1, node.stat.version)

    def _take(self, start: int, version: int | None) -> None:
        end = start + BLOCK_SIZE
        if end > MAX_PRODUCER_ID:
            self._refuse(StoreError(PRODUCER_ID_BLOCK, "all producer ids are used up"))
            return
        fields = {
            "version": 1,
            "broker": self._node,
            "block_start": str(start),
            "block_end": str(end - 1),
        }
        data = json.dumps(fields, separators=(",", ":")).encode()
        write: Operation = (
            Create(PRODUCER_ID_BLOCK, data)
            if version is None
            else SetData(PRODUCER_ID_BLOCK, data, version)
        )

        def taken(result: list[Result] | StoreError) -> None:
            if isinstance(result, (BadVersion, NodeExists)):
                self._store.get(PRODUCER_ID_BLOCK, self._got_block)  # another broker was faster
            elif isinstance(result, StoreError):
                self._refuse(result)
            else:
                self._next, self._end = start, end
                self._serve()

        self._store.multi([write], taken)

    def _serve(self) -> None:
        self._is_taking = False
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            guarded(self.next, done)

    def _refuse(self, error: StoreError) -> None:
        logger.warning("no block of producer ids", reason=str(error))
        self._is_taking = False
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            guarded(done, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)))
