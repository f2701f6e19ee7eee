"""A workload of keyed records and offset commits on a broker that compacts, and its checker.

Producers, plain and idempotent, change a few keys with acks=all, a group commits offsets, and a
consumer reads. After each crash `check` compares the broker with what clients were told: the last
acknowledged value of every key is there, no earlier one is the last, a record that was read has not
changed, and the group gets its last acknowledged commit.
"""

from dataclasses import dataclass, field
from random import Random as Generator

from sawlog.core.errors import ErrorCode
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.machine_client import MachineClient, acknowledged_offset
from sawlog.simulation.simulated_broker import Call, SimulatedMachine

TOPIC = "compacted"
GROUP = "group"
OFFSETS_TOPIC = "__consumer_offsets"
KEYS = tuple(b"key-%d" % number for number in range(6))
COMMIT_VERSION = OFFSETS_VERSION = 9  # the last versions that name topics
_RETRIABLE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

SETTINGS = {
    "log_cleaner_backoff_ms": "50",
    "offsets_topic_num_partitions": "1",
}
"""Settings of the simulated broker: it looks for dirty logs all the time."""

SMALL_SEGMENTS = {"internal.segment.bytes": "700", "min.cleanable.dirty.ratio": "0"}
TOPIC_CONFIG = SMALL_SEGMENTS | {
    "cleanup.policy": "compact",
    "index.interval.bytes": "100",
    "delete.retention.ms": "200",
    "file.delete.delay.ms": "0",
}
_TOPIC_RESOURCE = 2


@dataclass
class History:
    """Everything that clients were told."""

    read: dict[int, Record] = field(default_factory=dict)
    known: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    """The last offset and value of each key that was acknowledged or read."""
    perhaps_deleted: set[bytes] = field(default_factory=set)
    """Keys with a tombstone in a request that a crash left without a response."""
    sent: dict[bytes, tuple[bytes, bytes | None]] = field(default_factory=dict)
    """Key and value of every record that was sent, by its number, which is in its header."""
    committed: int = -1  # the last acknowledged offset of the group
    sent_commit: int = -1


@dataclass(frozen=True)
class Sent:
    """A Produce request without a response yet."""

    call: Call
    records: list[Record]
    sequence: int | None


class KeyedWorkload:
    """Random steps from a seed; `history` survives crashes."""

    def __init__(self, machine: SimulatedMachine, seed: int) -> None:
        self.machine = machine
        self.history = History()
        self._client = MachineClient(machine, TOPIC)
        self._generator = Generator(seed)
        self._count = 0
        self._topic_exists = False
        self._sent: Sent | None = None
        self._producer_id = -1
        self._next_sequence = 0

    # Steps

    def prepare(self) -> None:
        """Create the topic, with segments so small that the log rolls often."""
        self._client.create_topic(1, TOPIC_CONFIG)
        self._topic_exists = True
        find = FindCoordinatorRequest(coordinator_keys=[GROUP])  # creates the topic of offsets
        while code := self.machine.ask(find).coordinators[0].error_code:
            assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.machine.schedule.run_for(10)
        changes = [AlterableConfig(name, value=value) for name, value in SMALL_SEGMENTS.items()]
        alter = AlterConfigsResource(_TOPIC_RESOURCE, OFFSETS_TOPIC, changes)
        response = self.machine.ask(IncrementalAlterConfigsRequest([alter]))
        assert response.responses[0].error_code == 0, response

    def run(self, steps: int) -> None:
        for _ in range(steps):
            choice = self._generator.random()
            if choice < 0.3:
                self.produce()
            elif choice < 0.55:
                self.produce(is_idempotent=True)
            elif choice < 0.7:
                self._commit()
            elif choice < 0.85:
                self._read()
            else:
                self.machine.schedule.run_for(self._generator.choice((10, 60, 300, 6_000)))

    def produce(self, *, is_idempotent: bool = False) -> None:
        """Change some keys and wait for the response."""
        if is_idempotent and self._producer_id < 0:
            self._producer_id, self._next_sequence = self._client.new_producer_id(), 0
        records = [self._record(place) for place in range(self._generator.randrange(1, 4))]
        self._send(records, self._next_sequence if is_idempotent else None)
        self._settle()

    def _record(self, place: int) -> Record:
        self._count += 1
        number = b"%d" % self._count
        key = self._generator.choice(KEYS)
        is_deleted = self._generator.random() < 0.2
        value = None if is_deleted else number + bytes(self._generator.randrange(120))
        self.history.sent[number] = key, value
        return Record(place, self.machine.schedule.now_ms(), key, value, (("number", number),))

    def _send(self, records: list[Record], sequence: int | None) -> None:
        is_idempotent = sequence is not None
        batch = build_batch(
            records,
            codec=self._generator.choice(list(Codec)),
            producer_id=self._producer_id if is_idempotent else -1,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=-1 if sequence is None else sequence,
        )
        self._sent = Sent(self._client.produce(0, batch), records, sequence)

    def _settle(self) -> None:
        """Wait for the response to the Produce request, if there is one."""
        sent = self._sent
        if sent is None:
            return
        assert self.machine.schedule.run(lambda: sent.call.is_done)
        base_offset = acknowledged_offset(sent.call)
        self._sent = None
        if sent.sequence is not None:
            self._next_sequence = sent.sequence + len(sent.records)
        for record in sent.records:
            self._learn(base_offset + record.offset, record)
            self.history.perhaps_deleted.discard(record.key or b"")

    def _learn(self, offset: int, record: Record) -> None:
        assert record.key is not None
        known = self.history.known
        if offset >= known.get(record.key, (-1, None))[0]:
            known[record.key] = offset, record.value

    def _commit(self) -> None:
        self._count += 1
        self.history.sent_commit = self._count
        partition = OffsetCommitRequestPartition(0, self._count)
        topic = OffsetCommitRequestTopic(TOPIC, partitions=[partition])
        request = OffsetCommitRequest(GROUP, topics=[topic])
        while True:
            response = self.machine.ask(request, COMMIT_VERSION)
            code = response.topics[0].partitions[0].error_code
            if code not in _RETRIABLE:
                break
            self.machine.schedule.run_for(10)
        assert code == 0, response
        self.history.committed = self._count

    def committed(self) -> int:
        """The group's offset, as OffsetFetch returns it."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
        while True:
            group = self.machine.ask(request, OFFSETS_VERSION).groups[0]
            if group.error_code not in _RETRIABLE:
                break
            self.machine.schedule.run_for(10)
        assert group.error_code == 0, group
        found = [each.committed_offset for topic in group.topics for each in topic.partitions]
        return found[0] if found else -1

    def _read(self) -> dict[int, Record]:
        """Read the topic from its start, as a consumer."""
        found = self._client.read(0)
        self._check_read(found)
        return found

    def _check_read(self, found: dict[int, Record]) -> None:
        """No record has changed, and the last value of each key is not older than the last one that
        was acknowledged or read."""
        history = self.history
        for offset, record in found.items():
            number = record.headers[0][1] or b""
            assert history.sent[number] == (record.key, record.value)
            assert history.read.get(offset, record) == record, f"offset {offset} has changed"
        last = {record.key: offset for offset, record in sorted(found.items())}
        for key, (offset, value) in history.known.items():
            if key in last:
                assert last[key] >= offset, f"{key!r}: offset {last[key]} after {offset} was known"
            elif value is not None:
                assert key in history.perhaps_deleted, f"{key!r} is lost: offset {offset}"
        history.read.update(found)
        for offset, record in found.items():
            self._learn(offset, record)

    # After a crash

    def crashed(self) -> None:
        """Forget the request in flight; an idempotent one is sent again by `check`."""
        if self._sent is not None and self._sent.sequence is None:
            deleted = {record.key or b"" for record in self._sent.records if record.value is None}
            self.history.perhaps_deleted |= deleted
            self._sent = None

    def check(self) -> None:
        """Assert that a restarted broker has everything it promised to clients."""
        if not self._topic_exists:
            return
        if self._sent is not None and self._sent.sequence is not None:
            self._send(self._sent.records, self._sent.sequence)
        self._settle()
        self.machine.schedule.run_for(1_000)  # recovered records are flushed and visible again
        self._read()
        if self.history.sent_commit >= 0:
            found = self.committed()
            history = self.history
            assert history.committed <= found <= history.sent_commit, (
                f"the group is at {found}, {history.committed} was acknowledged"
            )
            history.committed = found
