"""The partitions of a follower's fetch session that its next fetch has to read.

A partition is settled when another fetch from the same offsets would change nothing but the time
of the last fetch (`Replica.settled`). It is read again after a change, which its replica reports to
the listeners of the log end: a fetch of 1,000 partitions of which three have changed reads three.
What concerns all of them (a new broker epoch, an offline directory) is checked by the fetch itself.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from sawlog.replication.follower_progress import LastFetch

if TYPE_CHECKING:
    from sawlog.broker.fetch_sessions import FetchedPartition
    from sawlog.replication.follower_progress import FollowerProgress
    from sawlog.replication.replica import Replica


class ParkedFetch(Protocol):
    """A fetch of the session that waits in the purgatory."""

    def offset_moved(self) -> None:
        """A partition of the session has changed."""

    def supersede(self) -> None:
        """Reply now: the next fetch of the session has arrived, or there will be none."""


class _Watch:
    """One partition that watches its replica."""

    __slots__ = ("_owner", "partition", "progress", "replica")

    def __init__(
        self, owner: "UnsettledPartitions", partition: "FetchedPartition", replica: "Replica"
    ) -> None:
        self._owner = owner
        self.partition = partition
        self.replica = replica
        self.progress: FollowerProgress | None = None  # while the partition is settled

    def settle(self, progress: "FollowerProgress") -> None:
        self.progress = progress

    def unsettle(self) -> None:
        self.progress = None

    def offset_moved(self) -> None:
        self._owner.changed(self.partition)


class UnsettledPartitions:
    """The unsettled partitions of one session, those first that waited longest for a response with
    their records.

    Invariants: every partition of the session is unsettled, or it watches its replica and its
    progress counts the fetches of the session. While no fetch is parked, a change ends the watch: a
    session that its follower has left costs each replica one call.
    """

    __slots__ = ("_last_fetch", "_parked", "_unsettled", "_watches")

    def __init__(self, partitions: Iterable["FetchedPartition"], now_ms: int) -> None:
        self._unsettled: dict[FetchedPartition, None] = dict.fromkeys(partitions)
        self._watches: dict[FetchedPartition, _Watch] = {}
        self._last_fetch = LastFetch(now_ms)
        self._parked: ParkedFetch | None = None

    def __len__(self) -> int:
        return len(self._unsettled)

    def in_order(self) -> "list[FetchedPartition]":
        return list(self._unsettled)

    def fetch_arrived(self, now_ms: int) -> None:
        """The follower still has all records of the settled partitions. The partitions in the
        request were unsettled before."""
        self._last_fetch.at_ms = now_ms

    # Partitions

    def unsettle(self, partition: "FetchedPartition") -> None:
        """The next fetch reads this partition."""
        if partition not in self._unsettled:
            self._unsettled[partition] = None
            self._end_settled(partition)

    def unsettle_all(self, partitions: "Iterable[FetchedPartition]") -> None:
        for partition in partitions:
            self.unsettle(partition)

    def served(self, partition: "FetchedPartition") -> None:
        """The response has records of this partition: others come first in the next one."""
        if self._unsettled.pop(partition, partition) is None:
            self._unsettled[partition] = None

    def settle(self, partition: "FetchedPartition", progress: "FollowerProgress") -> None:
        """Read a partition, which watches its replica, no more until something changes."""
        del self._unsettled[partition]
        self._watches[partition].settle(progress)
        progress.count_fetches(self._last_fetch)

    def remove(self, partition: "FetchedPartition") -> None:
        """The partition has left the session."""
        self._end_settled(partition)
        self._unsettled.pop(partition, None)
        self.unwatch(partition)

    def _end_settled(self, partition: "FetchedPartition") -> None:
        watch = self._watches.get(partition)
        if watch is not None and watch.progress is not None:
            watch.progress.stop_counting(self._last_fetch)
            watch.unsettle()

    def close(self) -> None:
        """The session is over: release its replicas and answer its parked fetch."""
        for partition in list(self._watches):
            self.unsettle(partition)
            self.unwatch(partition)
        self.supersede()

    # Changes

    def watch(self, partition: "FetchedPartition", replica: "Replica") -> None:
        """Notice the changes of a partition that is being read."""
        known = self._watches.get(partition)
        if known is not None:
            if known.replica is replica:
                return
            self.unwatch(partition)
        watch = self._watches[partition] = _Watch(self, partition, replica)
        replica.watch_log_end(watch)

    def unwatch(self, partition: "FetchedPartition") -> None:
        watch = self._watches.pop(partition, None)
        if watch is not None:
            watch.replica.unwatch(watch)

    def changed(self, partition: "FetchedPartition") -> None:
        """The replica of a partition has changed."""
        self.unsettle(partition)
        if self._parked is not None:
            self._parked.offset_moved()
        else:
            self.unwatch(partition)

    # The parked fetch

    def park(self, fetch: ParkedFetch) -> None:
        """Report the changes of all partitions to a fetch, which reads the unsettled ones now."""
        self._parked = fetch

    def unpark(self, fetch: ParkedFetch) -> None:
        if self._parked is fetch:
            self._parked = None

    def supersede(self) -> None:
        """Answer the parked fetch, if there is one."""
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.supersede()
