"""How far one follower has come, as its leader knows from the follower's fetches."""

from typing import NamedTuple

from sawlog.core.ids import NodeId

NOTHING = -1
NEVER_MS = -(1 << 62)


class FollowerFetch(NamedTuple):
    """What a follower's fetch says about its log."""

    node: NodeId
    broker_epoch: int  # -1 if the request has none
    fetch_offset: int
    flushed_offset: int  # -1 if the request has none
    start_offset: int


class FollowerProgress:
    """The progress of one follower in one leader epoch.

    Invariant: `flushed_offset` <= `end_offset`; both are of the process with `broker_epoch`. The
    follower had everything that the leader had at `caught_up_ms`.

    An example with numbers. The leader ends at 100 when a fetch from 90 arrives at time 1000. The
    sample is (100, 1000). The first fetch from 100 or more, whenever it arrives, shows that the
    follower was caught up with time 1000. With `flush.policy=commit` the flushed offset has to
    reach 100: several fetches may arrive while one flush runs, so the sample stays until then.
    """

    __slots__ = (
        "_sample_end_offset",
        "_sample_ms",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "flushed_offset",
        "has_fetched",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.broker_epoch = -1
        self.fetched_ms = NEVER_MS
        self._reset(caught_up_ms)

    def restarted(self, broker_epoch: int, *, is_member: bool) -> None:
        """Forget all offsets: another process fetches for the follower from now on. A member keeps
        the time at which it was caught up, so that one that restarts again and again leaves."""
        self.broker_epoch = broker_epoch
        self._reset(self.caught_up_ms if is_member else NEVER_MS)

    def _reset(self, caught_up_ms: int) -> None:
        self.end_offset = NOTHING
        self.flushed_offset = NOTHING
        self.start_offset = NOTHING
        self.has_fetched = False
        self.caught_up_ms = caught_up_ms
        self._sample_end_offset = NOTHING
        self._sample_ms = caught_up_ms

    def fetched(
        self, fetch: FollowerFetch, *, leader_end_offset: int, by_flush: bool, now_ms: int
    ) -> None:
        """Take over the offsets of a fetch. With `by_flush` only flushed records count."""
        self.broker_epoch = fetch.broker_epoch
        self.fetched_ms = now_ms
        self.end_offset = fetch.fetch_offset
        self.flushed_offset = min(fetch.flushed_offset, fetch.fetch_offset)
        self.start_offset = fetch.start_offset
        reached = self.reached(by_flush=by_flush)
        if reached >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self.has_fetched and reached >= self._sample_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self._sample_ms)
        if not self.has_fetched or reached >= self._sample_end_offset:
            self._sample_end_offset = leader_end_offset
            self._sample_ms = now_ms
        self.has_fetched = True

    def reached(self, *, by_flush: bool) -> int:
        """The offset up to which the follower counts."""
        return self.flushed_offset if by_flush else self.end_offset

    def is_caught_up(
        self, leader_end_offset: int, *, by_flush: bool, lag_max_ms: int, now_ms: int
    ) -> bool:
        return (
            self.reached(by_flush=by_flush) >= leader_end_offset
            or now_ms - self.caught_up_ms <= lag_max_ms
        )
