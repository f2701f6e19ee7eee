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


class LastFetch:
    """The time at which the last fetch of a session arrived."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class FollowerProgress:
    """The progress of one follower in one leader epoch.

    Invariant: `flushed_offset` <= `end_offset`; both are of the process with `broker_epoch`. The
    follower had everything that the leader had at `caught_up_ms`.

    An example with numbers. The leader ends at 100 when a fetch from 90 arrives at time 1000. The
    sample is (100, 1000). The first fetch from 100 or more, whenever it arrives, shows that the
    follower was caught up with time 1000. With `flush.policy=commit` the flushed offset has to
    reach 100: several fetches may arrive while one flush runs, so the sample stays until then.

    The fetches of a follower that has everything are not reported one by one: `count_fetches`.
    """

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_last_fetch",
        "_sample_end_offset",
        "_sample_ms",
        "broker_epoch",
        "end_offset",
        "flushed_offset",
        "has_fetched",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.broker_epoch = -1
        self._fetched_ms = NEVER_MS
        self._last_fetch: LastFetch | None = None
        self._reset(caught_up_ms)

    def restarted(self, broker_epoch: int, *, is_member: bool) -> None:
        """Forget all offsets: another process fetches for the follower from now on. A member keeps
        the time at which it was caught up, so that one that restarts again and again leaves."""
        self.broker_epoch = broker_epoch
        self._end_counting()
        self._reset(self.caught_up_ms if is_member else NEVER_MS)

    def _reset(self, caught_up_ms: int) -> None:
        self.end_offset = NOTHING
        self.flushed_offset = NOTHING
        self.start_offset = NOTHING
        self.has_fetched = False
        self._caught_up_ms = caught_up_ms
        self._sample_end_offset = NOTHING
        self._sample_ms = caught_up_ms

    @property
    def caught_up_ms(self) -> int:
        if self._last_fetch is None:
            return self._caught_up_ms
        return max(self._caught_up_ms, self._last_fetch.at_ms)

    @property
    def fetched_ms(self) -> int:
        """The time of the last fetch."""
        if self._last_fetch is None:
            return self._fetched_ms
        return max(self._fetched_ms, self._last_fetch.at_ms)

    def fetched(
        self, fetch: FollowerFetch, *, leader_end_offset: int, by_flush: bool, now_ms: int
    ) -> None:
        """Take over the offsets of a fetch. With `by_flush` only flushed records count."""
        self._end_counting()
        self.broker_epoch = fetch.broker_epoch
        self._fetched_ms = now_ms
        self.end_offset = fetch.fetch_offset
        self.flushed_offset = min(fetch.flushed_offset, fetch.fetch_offset)
        self.start_offset = fetch.start_offset
        reached = self.reached(by_flush=by_flush)
        if reached >= leader_end_offset:
            self._caught_up_ms = now_ms
        elif self.has_fetched and reached >= self._sample_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, self._sample_ms)
        if not self.has_fetched or reached >= self._sample_end_offset:
            self._sample_end_offset = leader_end_offset
            self._sample_ms = now_ms
        self.has_fetched = True

    def count_fetches(self, last_fetch: LastFetch) -> None:
        """The follower has everything that the leader has, and so it had at `last_fetch`, which
        moves, until `stop_counting` or a fetch that is reported."""
        self._last_fetch = last_fetch

    def stop_counting(self, last_fetch: LastFetch) -> None:
        """The leader has records that the fetches of a session do not show any more. Does nothing
        if those of another session are counted."""
        if self._last_fetch is last_fetch:
            self._end_counting()

    def _end_counting(self) -> None:
        if self._last_fetch is not None:
            self._fetched_ms = self.fetched_ms
            self._caught_up_ms = self._sample_ms = self.caught_up_ms
            self._last_fetch = None

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
