"""The values of open transactions, which take effect at the commit marker.

The order of records in the log decides, not that of markers: of two values of one key the one with
the later record counts, because a compaction keeps that one. So a value that takes effect
supersedes pending values with earlier records; these have no effect, but their key stays pending.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from sawlog.core.ids import ProducerId

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingValues(Generic[K, V]):
    """Invariants: both mappings have the same pairs of producer and key, and no mapping inside them
    is empty; the values of a key are in log order, and None if they are superseded.

    Example: producer 1 writes `k` at offset 5 and producer 2 at offset 7; the marker of 2 is at
    offset 8, that of 1 at offset 9. After both, `k` has the value of producer 2.
    """

    __slots__ = ("_by_key", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, dict[K, None]] = {}
        self._by_key: dict[K, dict[ProducerId, V | None]] = {}

    def __len__(self) -> int:
        """The number of keys that have a pending value."""
        return len(self._by_key)

    def __contains__(self, key: K) -> bool:
        return key in self._by_key

    @property
    def keys(self) -> Iterable[K]:
        return self._by_key.keys()

    def of_key(self, key: K) -> Mapping[ProducerId, V | None]:
        """The pending values of a key in log order, None for a superseded one."""
        return self._by_key.get(key, {})

    def put(self, producer_id: ProducerId, key: K, value: V) -> None:
        values = self._by_key.setdefault(key, {})
        values.pop(producer_id, None)
        values[producer_id] = value
        self._by_producer.setdefault(producer_id, {})[key] = None

    def supersede(self, key: K) -> None:
        """Another value of this key, with a later record, has taken effect."""
        values = self._by_key.get(key)
        if values is not None:
            for producer_id in values:
                values[producer_id] = None

    def remove(self, key: K) -> None:
        """Remove all pending values of this key: a tombstone with a later record has taken
        effect."""
        for producer_id in list(self.of_key(key)):
            self._remove(producer_id, key)

    def commit(self, producer_id: ProducerId) -> list[tuple[K, V]]:
        """End a producer's transaction and return the values that take effect."""
        effective = []
        for key in list(self._by_producer.get(producer_id, ())):
            values = self._by_key[key]
            value = values[producer_id]
            if value is not None:
                effective.append((key, value))
                for earlier in values:
                    if earlier == producer_id:
                        break
                    values[earlier] = None
            self._remove(producer_id, key)
        return effective

    def abort(self, producer_id: ProducerId) -> None:
        """End a producer's transaction without an effect."""
        for key in list(self._by_producer.get(producer_id, ())):
            self._remove(producer_id, key)

    def _remove(self, producer_id: ProducerId, key: K) -> None:
        keys = self._by_producer[producer_id]
        del keys[key]
        if not keys:
            del self._by_producer[producer_id]
        values = self._by_key[key]
        del values[producer_id]
        if not values:
            del self._by_key[key]
