"""Classic groups under arbitrary requests, timeouts, full disks and restarts."""

from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS
from sawlog.protocol.messages.join_group_response import JoinGroupResponse
from sawlog.protocol.messages.sync_group_response import SyncGroupResponse
from support.groups.classic_group import COMMIT_MS, GROUP, Asked, ClassicWorld

PROTOCOLS = (
    (("range", b"r"),),
    (("range", b"r"), ("sticky", b"s")),
    (("sticky", b"s"), ("range", b"other")),
    (("sticky", b"s"), ("range", b"r")),
    (("sticky", b"s"),),
    (),
)
INSTANCES = (None, None, "i", "j")
TIMES_MS = (0, 1, COMMIT_MS, 2_999, 3_001, 6_000, 10_000, 60_000, NEW_MEMBER_TIMEOUT_MS)
LONGEST_MS = 60_000

NOTHING: dict[str, Any] = {
    "protocol_type": "",
    "protocol": None,
    "generation": 0,
    "leader": None,
    "members": {},
}


class Sent(NamedTuple):
    asked: Asked
    generation: int  # of a sync
    owner: str  # the instance, or the member that a sync is for


def durable(group: ClassicGroup) -> dict[str, Any]:
    """The state of a stable or empty group that a restart restores."""
    return {
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "generation": group.generation,
        "leader": group.leader,
        "members": {
            member.id: (
                member.instance_id,
                member.client_id,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        },
    }


class ClassicGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ClassicWorld(
            group_initial_rebalance_delay_ms="3000",
            group_max_size="4",
            group_min_session_timeout_ms="1",
        )
        self.ids: list[str] = ["nobody"]
        self.sent: list[Sent] = []
        self.generation = 0
        self.durable: dict[str, Any] | None = None

    @property
    def group(self) -> ClassicGroup | None:
        return self.world.runtime.machine.groups.get(GROUP)  # type: ignore[return-value]

    def _send(self, asked: Asked, generation: int = 0, owner: str = "") -> None:
        self.sent.append(Sent(asked, generation, owner))

    def _pick(self, which: int) -> str:
        return self.ids[which % len(self.ids)]

    # Members

    @rule(
        version=st.sampled_from((3, 4, 8, 9)),
        instance=st.sampled_from(INSTANCES),
        protocols=st.sampled_from(PROTOCOLS),
        session_ms=st.sampled_from((5_000, 10_000, 30_000)),
        rebalance_ms=st.sampled_from((1_000, LONGEST_MS)),
    )
    def new_member(self, instance: str | None, **join: Any) -> None:
        self._send(self.world.join(instance=instance, **join))

    @rule(
        which=st.integers(0, 30),
        claims=st.sampled_from((None, "i", "its own")),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def rejoin(self, which: int, claims: str | None, protocols: Any) -> None:
        member_id = self._pick(which)
        instance = self._instance_of(member_id) if claims == "its own" else claims
        self._send(self.world.join(member_id, instance=instance, protocols=protocols))

    @rule()
    def all_rejoin(self) -> None:
        """All members rejoin, as after a rebalance began."""
        for member in list(self.group.members.values()) if self.group else ():
            offers = [(offer.name, offer.metadata) for offer in member.protocols]
            instance = member.instance_id
            self._send(self.world.join(member.id, instance=instance, protocols=offers))

    @rule(which=st.integers(0, 30), behind=st.sampled_from((0, 0, 0, 1)))
    def sync(self, which: int, behind: int) -> None:
        self._sync(self._pick(which), self.generation - behind)

    @rule(leader_first=st.booleans(), most=st.sampled_from((1, 9)))
    def all_sync(self, leader_first: bool, most: int = 9) -> None:
        group = self.group
        if group is not None:
            ids = sorted(group.members, key=lambda one: (one == group.leader) != leader_first)
            for member_id in ids[:most]:
                self._sync(member_id, group.generation)

    def _sync(self, member_id: str, generation: int) -> None:
        """The leader assigns to each member its id and the generation."""
        group = self.group
        members = list(group.members.values()) if group else []
        given = {
            member.id: f"{generation}:{member.instance_id or member.id}".encode()
            for member in members
        }
        owner = self._instance_of(member_id) or member_id
        self._send(self.world.sync(member_id, generation, given), generation, owner)

    @rule(which=st.integers(0, 30))
    def heartbeat(self, which: int) -> None:
        self._send(self.world.heartbeat(self._pick(which), self.generation))

    @rule(which=st.lists(st.integers(0, 30), min_size=1, max_size=3))
    def leave(self, which: list[int]) -> None:
        self._send(self.world.leave(*(self._pick(one) for one in which)))

    @rule(instance=st.sampled_from(("i", "j")))
    def remove_by_admin(self, instance: str) -> None:
        self._send(self.world.leave(("", instance)))

    def _instance_of(self, member_id: str) -> str | None:
        member = self.group.members.get(member_id) if self.group else None
        return None if member is None else member.instance_id

    @rule(
        newcomers=st.integers(0, 2),
        instance=st.sampled_from(INSTANCES),
        leader_first=st.booleans(),
    )
    def settle(self, newcomers: int, instance: str | None, leader_first: bool) -> None:
        """Complete a generation, unless the disk is full: random requests seldom do."""
        offers = PROTOCOLS[1]
        for number in range(newcomers):
            named = instance if number == 0 else None
            self._send(self.world.join(instance=named, version=3, protocols=offers))
            self._remember()
        if self.group is not None and self.group.state_name != "Stable":
            self.all_rejoin()
        self.world.pass_ms(3_001)
        self._remember()
        self.all_sync(leader_first)
        self._remember()
        self.world.pass_ms(COMMIT_MS)

    # Environment

    @rule(duration_ms=st.sampled_from(TIMES_MS))
    def time_passes(self, duration_ms: int) -> None:
        self.world.pass_ms(duration_ms)

    @rule(is_full=st.booleans())
    def disk(self, is_full: bool) -> None:
        self.world.disk.free_bytes = 0 if is_full else None

    @precondition(lambda self: self.world.disk.free_bytes is None)
    @rule()
    def restart(self) -> None:
        """Parked requests lose their connections."""
        self.world.pass_ms(COMMIT_MS)
        self.check()
        self.sent.clear()
        self.world.restart()
        self.generation = self.group.generation if self.group else 0

    # Invariants

    @invariant()
    def check(self) -> None:
        self._check_responses()
        group = self.group
        rebuilt = self.world.rebuilt().groups.get(GROUP)
        if group is None:  # not created yet, or expired
            assert rebuilt is None
            self.durable = None
            self.generation = 0
            return
        check_whole(group)
        assert group.generation >= self.generation
        self.generation = group.generation
        self._remember()
        assert isinstance(rebuilt, ClassicGroup)
        assert durable(rebuilt) == self.durable

    def _remember(self) -> None:
        """Remember the last written state: that of a stable or empty group."""
        group = self.group
        if self.durable is None:
            self.durable = NOTHING
        if group is not None and group.state_name in ("Stable", "Empty"):
            self.durable = durable(group)

    def _check_responses(self) -> None:
        for sent in self.sent:
            asked = sent.asked
            assert len(asked.by_machine) <= 1
            assert len(asked.by_runtime) <= 1
            assert not (asked.by_machine and asked.by_runtime)
            if asked.is_answered:
                self._check_response(sent, asked.response)
        self.sent = [sent for sent in self.sent if not sent.asked.is_answered]

    def _check_response(self, sent: Sent, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids.append(answer.member_id)
            if answer.members:
                ids = [member.member_id for member in answer.members]
                assert answer.leader == answer.member_id
                assert len(set(ids)) == len(ids)
                assert answer.member_id in ids
        elif isinstance(answer, SyncGroupResponse) and answer.assignment:
            assert answer.error_code == 0
            assert answer.assignment == f"{sent.generation}:{sent.owner}".encode()

    # Final state

    def teardown(self) -> None:
        """All members stop: every request is answered, and the group becomes empty."""
        self.world.disk.free_bytes = None
        self.world.pass_ms(2 * NEW_MEMBER_TIMEOUT_MS)
        self.check()
        assert self.sent == []
        if self.group is not None:
            assert self.group.state_name == "Empty"
            assert self.group.members == {}
            assert self.group.pending == set()
        self.world.runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))


def check_whole(group: ClassicGroup) -> None:
    """Check the invariants of the class and of each state."""
    members = group.members
    statics = {m.instance_id: m.id for m in members.values() if m.instance_id is not None}
    assert group.static_ids == statics
    assert all(member.id == key for key, member in members.items())
    waiting = {*group.waiting_joins, *group.waiting_syncs, *group.new_members, *group.unsynced}
    assert waiting <= set(members)
    assert not group.pending & set(members)
    assert (group.leader in members) if members else group.leader is None
    counts = dict.fromkeys(group.protocol_counts, 0)
    for member in members.values():
        for name in member.protocol_names:
            counts[name] += 1
    assert group.protocol_counts == counts
    match group.state_name:
        case "Empty":
            assert not members
            assert group.protocol is None
        case "PreparingRebalance":
            assert not group.waiting_syncs
            assert not group.unsynced
        case "CompletingRebalance":
            assert members
            assert not group.waiting_joins
            assert not group.new_members
        case "Stable":
            assert members
            assert not group.waiting_joins
    if group.state_name in ("CompletingRebalance", "Stable"):
        assert all(group.protocol in member.protocol_names for member in members.values())


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
