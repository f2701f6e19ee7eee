"""A random workload against one simulated broker, and a checker of its promises.

Producers, plain and idempotent, write unique values with acks=all; a consumer records everything it
reads. After each crash `check` compares the broker with that history: every record that was
acknowledged or read is at its offset, and no value is there twice.
"""

from dataclasses import dataclass, field
from random import Random as Generator

from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.machine_client import MachineClient, acknowledged_offset
from sawlog.simulation.simulated_broker import Call, SimulatedMachine

TOPIC = "t"
PARTITIONS = 2
TOPIC_CONFIG = {"internal.segment.bytes": "600", "index.interval.bytes": "100"}
MAX_OPEN_CALLS = 4


@dataclass
class Producer:
    """An idempotent producer of one partition; it retries the values in flight after a crash."""

    producer_id: int
    next_sequence: int = 0
    in_flight: list[bytes] | None = None

    def send(self, values: list[bytes]) -> None:
        self.in_flight = values

    def acknowledge(self) -> None:
        assert self.in_flight is not None
        self.next_sequence += len(self.in_flight)
        self.in_flight = None


@dataclass(frozen=True)
class History:
    """Everything the broker promised to clients: values by offset, for each partition."""

    acknowledged: list[dict[int, bytes]] = field(
        default_factory=lambda: [{} for _ in range(PARTITIONS)]
    )
    read: list[dict[int, bytes]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    producer_ids: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Sent:
    """A Produce request without a response yet."""

    call: Call
    partition: int
    values: list[bytes]
    producer: Producer | None


class Workload:
    """Random steps from a seed; `history` survives crashes."""

    def __init__(self, machine: SimulatedMachine, seed: int) -> None:
        self.machine = machine
        self.history = History()
        self._client = MachineClient(machine, TOPIC)
        self._topic_exists = False
        self._generator = Generator(seed)
        self._sent: list[Sent] = []
        self._producers: dict[int, Producer] = {}
        self._count = 0

    # Steps

    def prepare(self) -> None:
        """Create the topic, with segments so small that the log rolls often."""
        self._client.create_topic(PARTITIONS, TOPIC_CONFIG)
        self._topic_exists = True

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
        assert self.machine.schedule.run(lambda: all(sent.call.is_done for sent in self._sent))
        self._settle()

    def _step(self) -> None:
        choice = self._generator.random()
        if choice < 0.35:
            self._produce(None)
        elif choice < 0.65:
            self._produce_idempotently()
        elif choice < 0.8:
            self._fetch(self._generator.randrange(PARTITIONS))
        elif choice < 0.85:
            self.machine.schedule.run_for(self._generator.choice((10, 100, 6_000)))
        else:
            for _ in range(self._generator.randrange(5)):
                self.machine.schedule.step()
        self._settle()
        if len(self._sent) > MAX_OPEN_CALLS:
            self.machine.schedule.run(lambda: any(sent.call.is_done for sent in self._sent))
            self._settle()

    def _produce(self, producer: Producer | None, partition: int | None = None) -> None:
        if partition is None:
            partition = self._generator.randrange(PARTITIONS)
        if producer is not None and producer.in_flight is not None:
            values = producer.in_flight
        else:
            values = [self._value() for _ in range(self._generator.randrange(1, 4))]
        if producer is not None:
            producer.send(values)
        now_ms = self.machine.schedule.now_ms()
        batch = build_batch(
            [Record(place, now_ms, b"k", value, ()) for place, value in enumerate(values)],
            codec=Codec.NONE,
            producer_id=producer.producer_id if producer else -1,
            producer_epoch=0 if producer else -1,
            base_sequence=producer.next_sequence if producer else -1,
        )
        call = self._client.produce(partition, batch)
        self._sent.append(Sent(call, partition, values, producer))

    def _produce_idempotently(self) -> None:
        partition = self._generator.randrange(PARTITIONS)
        producer = self._producers.get(partition)
        if producer is None or (producer.in_flight is None and self._generator.random() < 0.1):
            producer_id = self._client.new_producer_id()
            assert producer_id not in self.history.producer_ids, "a producer id was allocated twice"
            self.history.producer_ids.add(producer_id)
            producer = self._producers[partition] = Producer(producer_id)
        if producer.in_flight is None:
            self._produce(producer, partition)

    def _value(self) -> bytes:
        self._count += 1
        return b"%d:" % self._count + bytes(self._generator.randrange(1, 120))

    def _settle(self) -> None:
        """Add the answered requests to the history."""
        for sent in [sent for sent in self._sent if sent.call.is_done]:
            self._sent.remove(sent)
            base_offset = acknowledged_offset(sent.call)
            for place, value in enumerate(sent.values):
                self.history.acknowledged[sent.partition][base_offset + place] = value
            if sent.producer is not None:
                sent.producer.acknowledge()

    def _fetch(self, partition: int) -> dict[int, bytes]:
        """Read a partition from its start, as a consumer; a broker must not lose records read."""
        found: dict[int, bytes] = {}
        for offset, record in self._client.read(partition).items():
            assert record.value is not None
            found[offset] = record.value
        self.history.read[partition].update(found)
        return found

    # After a crash

    def crashed(self) -> None:
        """Forget pending requests; idempotent producers will retry theirs."""
        self._sent.clear()

    def check(self) -> None:
        """Assert that a restarted broker has everything it promised to clients."""
        if not self._topic_exists:
            return
        for producer_partition, producer in self._producers.items():
            if producer.in_flight is not None:
                self._produce(producer, producer_partition)
        assert self.machine.schedule.run(lambda: all(sent.call.is_done for sent in self._sent))
        self._settle()
        self.machine.schedule.run_for(1_000)  # recovered records are flushed and visible again
        for partition in range(PARTITIONS):
            read = dict(self.history.read[partition])
            found = self._fetch(partition)
            for offset, value in {**read, **self.history.acknowledged[partition]}.items():
                assert found.get(offset) == value, f"{TOPIC}-{partition} lost offset {offset}"
            values = list(found.values())
            assert len(values) == len(set(values)), f"{TOPIC}-{partition} has a value twice"
