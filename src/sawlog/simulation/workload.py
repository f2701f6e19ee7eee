"""A random workload against one simulated broker, and a checker of its promises.

Producers, plain and idempotent, write unique values with acks=all; a consumer records everything it
reads. After each crash `check` compares the broker with that history: every record that was
acknowledged or read is at its offset, and no value is there twice.
"""

from dataclasses import dataclass, field
from random import Random as Generator

from sawlog.core.errors import ErrorCode
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.simulation.simulated_broker import Call, SimulatedMachine

TOPIC = "t"
PARTITIONS = 2
PRODUCE_VERSION = 12  # the last version that names topics
FETCH_VERSION = 12
ACKS_ALL = -1
MAX_OPEN_CALLS = 4
_LIMIT_BYTES = 1 << 20


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
        self._topic_exists = False
        self._generator = Generator(seed)
        self._sent: list[Sent] = []
        self._producers: dict[int, Producer] = {}
        self._count = 0

    # Steps

    def prepare(self) -> None:
        """Create the topic, with segments so small that the log rolls often."""
        configs = [
            CreatableTopicConfig("internal.segment.bytes", "600"),
            CreatableTopicConfig("index.interval.bytes", "100"),
        ]
        topic = CreatableTopic(TOPIC, PARTITIONS, 1, configs=configs)
        response = self.machine.ask(CreateTopicsRequest([topic], timeout_ms=60_000))
        code = response.topics[0].error_code
        assert code in (0, int(ErrorCode.TOPIC_ALREADY_EXISTS)), response
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
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(partition, batch)])
        request = ProduceRequest(None, acks=ACKS_ALL, timeout_ms=60_000, topic_data=[data])
        call = self.machine.send(request, PRODUCE_VERSION)
        self._sent.append(Sent(call, partition, values, producer))

    def _produce_idempotently(self) -> None:
        partition = self._generator.randrange(PARTITIONS)
        producer = self._producers.get(partition)
        if producer is None or (producer.in_flight is None and self._generator.random() < 0.1):
            response = self.machine.ask(InitProducerIdRequest(None, 60_000))
            assert response.error_code == 0, response
            assert response.producer_id not in self.history.producer_ids, (
                "a producer id was allocated twice"
            )
            self.history.producer_ids.add(response.producer_id)
            producer = self._producers[partition] = Producer(response.producer_id)
        if producer.in_flight is None:
            self._produce(producer, partition)

    def _value(self) -> bytes:
        self._count += 1
        return b"%d:" % self._count + bytes(self._generator.randrange(1, 120))

    def _settle(self) -> None:
        """Add the answered requests to the history."""
        for sent in [sent for sent in self._sent if sent.call.is_done]:
            self._sent.remove(sent)
            assert sent.call.closed is None, sent.call.closed
            answer = sent.call.answered.responses[0].partition_responses[0]
            assert answer.error_code == 0, answer
            for place, value in enumerate(sent.values):
                self.history.acknowledged[sent.partition][answer.base_offset + place] = value
            if sent.producer is not None:
                sent.producer.acknowledge()

    def _fetch(self, partition: int) -> dict[int, bytes]:
        """Read a partition from its start, as a consumer; a broker must not lose records read."""
        found: dict[int, bytes] = {}
        offset = 0
        while True:
            wanted = FetchPartition(
                partition, fetch_offset=offset, partition_max_bytes=_LIMIT_BYTES
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=_LIMIT_BYTES,
                session_epoch=-1,
                topics=[FetchTopic(TOPIC, partitions=[wanted])],
            )
            data = self.machine.ask(request, FETCH_VERSION).responses[0].partitions[0]
            assert data.error_code == 0, data
            before = offset
            for position, header in batches_in(data.records):
                end = position + header.size
                batch = data.records[position:end]
                for record in iterate(batch, max_decompressed_bytes=_LIMIT_BYTES):
                    if record.offset >= offset:  # a gap was never acknowledged or read
                        assert record.value is not None
                        found[record.offset] = record.value
                        offset = record.offset + 1
            if offset == before:
                break
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
