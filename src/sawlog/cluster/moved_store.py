"""What moves from an embedded store to ZooKeeper, and the marks on both sides of a move.

`/sawlog_move` is created in an empty tree: no broker joins while it exists. The nodes are copied
and compared. The file `store.moved` is written: no broker opens the embedded store after that. The
cluster id is created and `/sawlog_move` deleted in one multi. The store's files are renamed. Any
step may be the last one before a crash; a repeated move goes on.
"""

import json
import re
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.store_tree import ROOT, StoreTree
from sawlog.core.store import Create, Node

MOVE = "/sawlog_move"
MOVED = "store.moved"
MOVED_SUFFIX = ".moved"
_STATE = re.compile(r"/brokers/topics/[^/]+/partitions/[0-9]+/state")
_NO_BROKER_EPOCH = 0  # of no registration, so that the first start elects every leader again


class MoveMark(NamedTuple):
    """The data of `/sawlog_move` and of `store.moved`: which directory moves to which ensemble."""

    directory_id: str
    cluster_id: str
    zookeeper: str

    def encode(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def decode_mark(data: bytes) -> MoveMark | None:
    """Read a mark; None if it is damaged."""
    try:
        return MoveMark(**json.loads(data))
    except (ValueError, TypeError):
        return None


def moved_nodes(tree: StoreTree, directory_id: str) -> list[Create]:
    """Return all nodes that outlive a session, parents first, without the cluster id.

    Change numbers begin anew in another store, so the broker epochs of the embedded store are not
    kept: one could be equal to a new one. The in-sync replicas are those of this directory.
    """
    nodes = []
    for path, data, _, owner, *_ in tree.dump():
        if owner or path in (ROOT, znodes.CLUSTER_ID):
            continue
        if _STATE.fullmatch(path) is not None:
            nodes.append(Create(path, _moved_state(tree.get(path), directory_id)))
        else:
            nodes.append(Create(path, data.encode("latin-1")))
    return nodes


def _moved_state(node: Node, directory_id: str) -> bytes:
    state = znodes.decode_state(node)
    members = tuple(
        member._replace(broker_epoch=_NO_BROKER_EPOCH, directory_id=directory_id)
        for member in state.members
    )
    return znodes.encode_state(state._replace(members=members))
