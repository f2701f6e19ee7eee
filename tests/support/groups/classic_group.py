"""A group coordinator on a simulated disk, and requests of classic members to it."""

from collections.abc import Callable, Sequence
from typing import Any

from sawlog.broker.coordinator_partition import CoordinatorPartition
from sawlog.cluster.metadata_image import EMPTY_IMAGE
from sawlog.coordinator.plan import Plan
from sawlog.coordinator.runtime import CoordinatorRuntime, State
from sawlog.core.config import BrokerConfig
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_responses import RespondOnce
from sawlog.groups.context import Caller, GroupContext
from sawlog.groups.group_machine import GroupMachine
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import iterate
from sawlog.simulation.schedule import SeededRandom
from support.coordinator.partition import PartitionWorld
from support.storage.logs import read

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
COMMIT_MS = 100
"""Enough for a record to be committed; no timeout is as short."""

RANGE = (("range", b"r"),)
Protocols = Sequence[tuple[str, bytes]]


class Asked:
    """A request; `answers` has at most one response.

    A machine that parked it answers at most once, and so does the runtime; both may only where a
    commit failed.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.by_machine: list[Any] = []
        self.by_runtime: list[Any] = []
        self._once = RespondOnce(self.answers.append)

    def respond(self, response: Any) -> None:
        self.by_machine.append(response)
        self._once(response)

    def reply(self, response: Any) -> None:
        self.by_runtime.append(response)
        self._once(response)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def response(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]

    @property
    def code(self) -> ErrorCode:
        """The error code of the response or of the refusal; NONE without an error."""
        response = self.response
        if isinstance(response, KafkaError):
            return response.code
        return ErrorCode(response.error_code)


class NoTimers:
    """Timers for a machine that runs no operations."""

    def set(self, key: object, delay_ms: int, operation: Callable[[], Plan]) -> None: ...

    def cancel(self, key: object) -> None: ...

    def is_set(self, key: object) -> bool:
        return False


class ClassicWorld:
    """One runtime with its clock. By default the first rebalance of a group has no delay."""

    def __init__(self, seed: int = 1, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig({"group.initial.rebalance.delay.ms": "0", **given})
        self._disk = PartitionWorld(seed)
        self.schedule = self._disk.schedule
        self.disk = self._disk.disk
        self._random = SeededRandom(seed)
        self._open()

    def _open(self) -> None:
        self.partition = self._disk.partition
        access = CoordinatorPartition(self.partition)
        self.runtime = CoordinatorRuntime(
            access,
            access,
            GROUP_RECORDS,
            self._machine,
            clock=self.schedule,
            timer=self.schedule,
        )
        self.runtime.load()
        self.schedule.run_for(COMMIT_MS)
        assert self.runtime.state is State.ACTIVE

    def _machine(self, timers: Any) -> GroupMachine:
        return GroupMachine(
            GroupContext(self.schedule, self._random, timers, self.config, lambda: EMPTY_IMAGE)
        )

    def restart(self, **settings: str) -> None:
        """Kill the broker and start another one on the same disk."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig({**self.config.given, **given})
        self._disk.reopened()
        self._open()

    def pass_ms(self, duration_ms: int) -> None:
        self.schedule.run_for(duration_ms)

    @property
    def is_writing(self) -> bool:
        """Whether records are not committed yet."""
        return self.partition.high_watermark < self.partition.log.end_offset

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.runtime.machine.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def rebuilt(self) -> GroupMachine:
        """A second machine, loaded from all records written so far, committed or not."""
        machine = self._machine(NoTimers())
        last: dict[bytes, bytes | None] = {}
        log = self.partition.log
        position = log.start_offset
        while (piece := read(log, position)) is not None:
            batches = memoryview(piece.read())
            for start, header in batches_in(batches):
                batch = batches[start : start + header.size]
                for record in iterate(batch, max_decompressed_bytes=1 << 24):
                    assert record.key is not None
                    last.pop(record.key, None)
                    last[record.key] = record.value
                position = header.next_offset
        for key, value in last.items():
            if value is not None:
                machine.replay(GROUP_RECORDS.decode(key, value))
        return machine

    # Requests

    def ask(self, operation: Callable[[Callable[[Any], None]], Plan]) -> Asked:
        """Run an operation; its argument answers the request later."""
        asked = Asked()
        self.runtime.run(lambda: operation(asked.respond), asked.reply, asked.reply)
        return asked

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "client",
    ) -> Asked:
        message = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(*offer) for offer in protocols],
        )
        caller = Caller(client, "/127.0.0.1", version)
        return self.ask(lambda respond: self._classic.join(caller, message, respond))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked:
        message = SyncGroupRequest(
            group,
            generation,
            member_id,
            instance,
            protocol_type,
            protocol,
            [SyncGroupRequestAssignment(*given) for given in (assignments or {}).items()],
        )
        caller = Caller("client", "/127.0.0.1", 5)
        return self.ask(lambda respond: self._classic.sync(caller, message, respond))

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        group: str = GROUP,
        instance: str | None = None,
    ) -> Asked:
        message = HeartbeatRequest(group, generation, member_id, instance)
        caller = Caller("client", "/127.0.0.1", 4)
        return self.ask(lambda _: self._classic.heartbeat(caller, message))

    def leave(self, *members: tuple[str, str | None] | str, group: str = GROUP) -> Asked:
        """Members by id, or by (member id, instance id)."""
        pairs = [(each, None) if isinstance(each, str) else each for each in members]
        message = LeaveGroupRequest(group, members=[MemberIdentity(*pair) for pair in pairs])
        caller = Caller("client", "/127.0.0.1", 5)
        return self.ask(lambda _: self._classic.leave(caller, message))

    @property
    def _classic(self) -> Any:
        return self.runtime.machine.classic

    # Sequences of requests

    def new_id(self, **join: Any) -> str:
        """Send the first of a dynamic member's two joins and return the id from the response."""
        asked = self.join(**join)
        self.pass_ms(COMMIT_MS)
        assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
        return str(asked.response.member_id)

    def settle(self, *known: str, assign: Callable[[str], bytes] | None = None) -> list[str]:
        """Let these members join and sync; without ids one new member. The first one leads a new
        group. Return their ids."""
        ids = list(known) or [self.new_id()]
        joins = [self.join(member_id) for member_id in ids]
        self.pass_ms(COMMIT_MS)
        self.synchronise(joins, assign)
        return ids

    def synchronise(
        self, joins: Sequence[Asked], assign: Callable[[str], bytes] | None = None
    ) -> list[Asked]:
        """Let the members of these joins sync, followers first."""
        answers = [join.response for join in joins]
        assert {answer.error_code for answer in answers} == {0}, answers
        give = assign or (lambda member_id: member_id.encode())
        syncs = []
        for answer in sorted(answers, key=lambda a: a.member_id == a.leader):
            assignments = {member.member_id: give(member.member_id) for member in answer.members}
            syncs.append(self.sync(answer.member_id, answer.generation_id, assignments))
        self.pass_ms(COMMIT_MS)
        assert [sync.code for sync in syncs] == [ErrorCode.NONE] * len(syncs)
        return syncs

    def stable(self, members: int = 1) -> list[str]:
        """Create a stable group of dynamic members; return their ids, the leader first."""
        ids = self.settle(*[self.new_id() for _ in range(members)])
        assert self.group().state_name == "Stable"
        assert self.group().leader == ids[0]
        return ids
