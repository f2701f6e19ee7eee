"""Random commits, deletions, restarts and time, compared with a model in a dictionary."""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sawlog.core.errors import ErrorCode
from support.groups.offsets import MINUTE_MS, OffsetsWorld

GROUPS = st.sampled_from(["g", "h", "i"])
TOPICS = st.sampled_from(["t", "u"])
PARTITIONS = st.sets(st.integers(0, 3), min_size=1)
RETENTION_MS = 10 * MINUTE_MS
INTERVAL_MS = 3 * MINUTE_MS
Key = tuple[str, str, int]


class Known(NamedTuple):
    offset: int
    metadata: str
    commit_ms: int
    expire_ms: int | None
    life: int


class OffsetsAgainstModel(RuleBasedStateMachine):
    """Groups without members; other tests cover members."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[Key, Known] = {}
        self.groups: set[str] = set()
        self.lives = 0
        self.next_offset = 0

    @initialize()
    def begin(self) -> None:
        self.world = OffsetsWorld(
            {"t": 0, "u": 0},
            offsets_retention_minutes="10",
            offsets_retention_check_interval_ms=str(INTERVAL_MS),
            offset_metadata_max_bytes="5",
        )
        self.next_check_ms = self.world.ms + INTERVAL_MS

    @rule(
        group=GROUPS,
        topic=TOPICS,
        partitions=PARTITIONS,
        metadata=st.sampled_from(["", "words"]),
        retention_ms=st.none() | st.integers(0, 20 * MINUTE_MS),
    )
    def commit(
        self,
        group: str,
        topic: str,
        partitions: set[int],
        metadata: str,
        retention_ms: int | None,
    ) -> None:
        life = self.world.lives.get(topic)
        if life is None:
            return
        self.next_offset += 1
        wanted = {(topic, partition): self.next_offset for partition in sorted(partitions)}
        answer = self.world.commit(
            group,
            wanted,
            metadata=metadata,
            retention_ms=-1 if retention_ms is None else retention_ms,
        )
        assert answer == dict.fromkeys(wanted, 0)
        now_ms = self.world.ms
        expire_ms = None if retention_ms is None else now_ms + retention_ms
        for partition in partitions:
            self.offsets[group, topic, partition] = Known(
                self.next_offset, metadata, now_ms, expire_ms, life
            )
        self.groups.add(group)

    @rule(group=GROUPS, topic=TOPICS)
    def commit_too_long_metadata(self, group: str, topic: str) -> None:
        if topic in self.world.lives:
            answer = self.world.commit(group, {(topic, 0): 0}, metadata="too long")
            assert answer == {(topic, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}

    @rule(group=GROUPS, topic=TOPICS, partitions=PARTITIONS)
    def delete_offsets(self, group: str, topic: str, partitions: set[int]) -> None:
        wanted = [(topic, partition) for partition in partitions]
        answer = self.world.delete_offsets(group, *wanted)
        if group not in self.groups:
            assert answer is ErrorCode.GROUP_ID_NOT_FOUND
            return
        assert answer == [0] * len(wanted)
        for partition in partitions:
            self.offsets.pop((group, topic, partition), None)

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        answer = self.world.delete_group(group)
        assert answer == (0 if group in self.groups else ErrorCode.GROUP_ID_NOT_FOUND)
        self._forget(lambda key, _: key[0] == group)
        self.groups.discard(group)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        if topic in self.world.lives:
            self.world.change_topics(**{topic: None})
            self._forget(lambda key, _: key[1] == topic)

    @rule(topic=TOPICS)
    def recreate_topic(self, topic: str) -> None:
        self.lives += 1
        if topic in self.world.lives:
            self._forget(lambda key, _: key[1] == topic)
        self.world.change_topics(**{topic: self.lives})

    @rule(minutes=st.integers(1, 12))
    def time_passes(self, minutes: int) -> None:
        self.world.pass_ms(minutes * MINUTE_MS)
        while self.next_check_ms <= self.world.ms:
            self._expire(self.next_check_ms)
            self.next_check_ms += INTERVAL_MS

    def _expire(self, now_ms: int) -> None:
        def is_expired(_: object, known: Known) -> bool:
            end_ms = known.expire_ms
            return now_ms >= (known.commit_ms + RETENTION_MS if end_ms is None else end_ms)

        self._forget(is_expired)
        self.groups = {key[0] for key in self.offsets}

    def _forget(self, is_deleted: Callable[[Key, Known], bool]) -> None:
        self.offsets = {k: known for k, known in self.offsets.items() if not is_deleted(k, known)}

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.groups = {key[0] for key in self.offsets}
        self.next_check_ms = self.world.ms + INTERVAL_MS

    @invariant()
    def groups_have_their_committed_offsets(self) -> None:
        assert self.world.machine.groups.keys() == self.groups
        for group in ("g", "h", "i"):
            expected = {
                key[1:]: (known.offset, known.metadata)
                for key, known in self.offsets.items()
                if key[0] == group
            }
            assert self.world.fetch(group) == expected

    @invariant()
    def a_reload_restores_the_same_offsets(self) -> None:
        rebuilt = self.world.rebuilt()
        assert rebuilt.offsets.by_group == self.world.machine.offsets.by_group
        assert rebuilt.groups.keys() == {key[0] for key in self.offsets}


TestOffsetsAgainstModel = OffsetsAgainstModel.TestCase
TestOffsetsAgainstModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
