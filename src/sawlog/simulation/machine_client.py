"""Requests of the workloads of one simulated broker: create a topic, produce to it, read it."""

from collections.abc import Mapping

from sawlog.core.errors import ErrorCode
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
from sawlog.protocol.records import Record, iterate
from sawlog.simulation.simulated_broker import Call, SimulatedMachine

PRODUCE_VERSION = 12  # the last version that names topics
FETCH_VERSION = 12
TIMEOUT_MS = 60_000
ACKS_ALL = -1
_LIMIT_BYTES = 1 << 20


class MachineClient:
    """A client of one topic. Errors that the broker must not return fail an assertion."""

    def __init__(self, machine: SimulatedMachine, topic: str) -> None:
        self._machine = machine
        self._topic = topic

    def create_topic(self, partitions: int, configs: Mapping[str, str]) -> None:
        """Create the topic, unless it exists."""
        topic = CreatableTopic(
            self._topic,
            partitions,
            1,
            configs=[CreatableTopicConfig(*each) for each in configs.items()],
        )
        response = self._machine.ask(CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS))
        code = response.topics[0].error_code
        assert code in (0, int(ErrorCode.TOPIC_ALREADY_EXISTS)), response

    def new_producer_id(self) -> int:
        response = self._machine.ask(InitProducerIdRequest(None, TIMEOUT_MS))
        assert response.error_code == 0, response
        producer_id: int = response.producer_id
        return producer_id

    def produce(self, partition: int, batch: bytes | bytearray) -> Call:
        """Send a batch with acks=all."""
        data = TopicProduceData(
            self._topic, partition_data=[PartitionProduceData(partition, batch)]
        )
        request = ProduceRequest(None, ACKS_ALL, TIMEOUT_MS, topic_data=[data])
        return self._machine.send(request, PRODUCE_VERSION)

    def read(self, partition: int) -> dict[int, Record]:
        """Return all records of a partition by their offsets, read from its start."""
        found: dict[int, Record] = {}
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
                topics=[FetchTopic(self._topic, partitions=[wanted])],
            )
            data = self._machine.ask(request, FETCH_VERSION).responses[0].partitions[0]
            assert data.error_code == 0, data
            before = offset
            for position, header in batches_in(data.records):
                batch = data.records[position : position + header.size]
                for record in iterate(batch, max_decompressed_bytes=_LIMIT_BYTES):
                    if record.offset >= before:
                        found[record.offset] = record
                offset = max(offset, header.next_offset)
            if offset == before:
                return found


def acknowledged_offset(call: Call) -> int:
    """The base offset of a produced batch, which the broker must have accepted."""
    assert call.closed is None, call.closed
    answer = call.answered.responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    offset: int = answer.base_offset
    return offset
