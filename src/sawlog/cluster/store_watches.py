"""Who waits for a change of which node. A watch is told once and forgotten.

A multi tells its watches after all of it is done, in the order of its changes.
"""

from collections.abc import Iterable, Iterator

from sawlog.cluster.store_tree import CREATED, DELETED, Change, split
from sawlog.core.store import Watch, WatchEvent, WatchKind

_KINDS = {CREATED: WatchKind.CREATED, DELETED: WatchKind.DELETED}


class Watches:
    """Of one session."""

    def __init__(self) -> None:
        self._of_node: dict[str, list[Watch]] = {}
        self._of_children: dict[str, list[Watch]] = {}

    def watch_node(self, path: str, watch: Watch) -> None:
        self._of_node.setdefault(path, []).append(watch)

    def watch_children(self, path: str, watch: Watch) -> None:
        self._of_children.setdefault(path, []).append(watch)

    def clear(self) -> None:
        self._of_node.clear()
        self._of_children.clear()

    def triggered(self, changes: Iterable[Change]) -> Iterator[tuple[Watch, WatchEvent]]:
        """The watches that these changes set off; they are gone afterwards."""
        if not self._of_node and not self._of_children:
            return
        for change in changes:
            path = change.path
            event = WatchEvent(_KINDS.get(change.kind, WatchKind.CHANGED), path)
            for watch in self._of_node.pop(path, ()):
                yield watch, event
            if change.kind == DELETED:
                for watch in self._of_children.pop(path, ()):
                    yield watch, event
            if change.kind in _KINDS:
                parent = split(path)[0]
                for watch in self._of_children.pop(parent, ()):
                    yield watch, WatchEvent(WatchKind.CHILDREN, parent)
