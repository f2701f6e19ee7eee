"""Consumer groups on a simulated broker, and members that behave as clients do."""

from collections.abc import Iterable
from typing import Any

from sawlog.coordinator.partition_for import partition_for
from sawlog.core.ids import TopicId
from sawlog.groups.consumer.consumer_group import ConsumerGroup
from sawlog.groups.group_machine import GroupMachine
from sawlog.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from sawlog.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sawlog.protocol.schema import Message
from sawlog.simulation.simulated_broker import SimulatedMachine

SESSION_MS = 45_000
REBALANCE_MS = 60_000
WAIT_MS = 10_000
GROUP_CONFIGS = 32

Partition = tuple[str, int]


class Groups:
    """A broker that coordinates groups. By default targets are computed without an interval."""

    def __init__(self, *, interval_ms: int = 0, seed: int = 1, **settings: str) -> None:
        self.machine = SimulatedMachine(
            seed,
            offsets_topic_num_partitions="1",
            group_consumer_assignment_interval_ms=str(interval_ms),
            **settings,
        )
        self.machine.boot()
        self.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        self.pass_time(100)

    # The broker

    def ask(self, message: Message, version: int | None = None) -> Any:
        return self.machine.ask(message, version)

    def pass_time(self, duration_ms: int) -> None:
        self.machine.schedule.run_for(duration_ms)

    def restart(self) -> None:
        """Kill the broker and start it again."""
        self.machine.kill()
        self.machine.boot()
        self.pass_time(100)

    def configure(self, group_id: str, name: str, value: str | None) -> None:
        """Set a config of a group; None deletes it."""
        change = AlterableConfig(name=name, config_operation=int(value is None), value=value)
        resource = AlterConfigsResource(GROUP_CONFIGS, group_id, [change])
        answer = self.ask(IncrementalAlterConfigsRequest([resource]))
        assert answer.responses[0].error_code == 0, answer

    # Topics

    def make(self, **sizes: int) -> None:
        topics = [CreatableTopic(name, size, 1) for name, size in sizes.items()]
        answer = self.ask(CreateTopicsRequest(topics, timeout_ms=WAIT_MS))
        assert [topic.error_code for topic in answer.topics] == [0] * len(sizes), answer

    def grow(self, name: str, size: int) -> None:
        topic = CreatePartitionsTopic(name, size, None)
        answer = self.ask(CreatePartitionsRequest([topic], timeout_ms=WAIT_MS))
        assert answer.results[0].error_code == 0, answer

    def delete(self, name: str) -> None:
        answer = self.ask(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=WAIT_MS))
        assert answer.responses[0].error_code == 0, answer

    def topic_id(self, name: str) -> TopicId:
        return self.machine.broker.metadata.image.topics[name].id

    def name_of(self, topic_id: bytes) -> str:
        return self.machine.broker.metadata.image.names.get(TopicId(topic_id), topic_id.hex())

    # Groups

    def heartbeat(self, *, version: int | None = None, **fields: Any) -> Any:
        fields.setdefault("group_id", "g")
        return self.ask(ConsumerGroupHeartbeatRequest(**fields), version)

    def join(
        self, member_id: str = "", *topics: str, version: int | None = None, **fields: Any
    ) -> Any:
        """Send the first heartbeat of a member."""
        fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
        if topics or "subscribed_topic_regex" not in fields:
            fields.setdefault("subscribed_topic_names", list(topics))
        return self.heartbeat(
            member_id=member_id, member_epoch=0, topic_partitions=[], version=version, **fields
        )

    def describe(self, group_id: str = "g", version: int | None = None) -> Any:
        return self.ask(ConsumerGroupDescribeRequest([group_id]), version).groups[0]

    def state(self, group_id: str = "g") -> str:
        name: str = self.describe(group_id).group_state
        return name

    @property
    def group_machine(self) -> GroupMachine:
        runtimes = self.machine.broker.groups.runtimes
        return runtimes[partition_for("g", len(runtimes))].machine

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.group_machine.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group


class Consumer:
    """A member that behaves as a client: it reads what is assigned to it, and reports that whenever
    it changes. `reads` has its current partitions."""

    def __init__(
        self, groups: Groups, member_id: str, *topics: str, group_id: str = "g", **fields: Any
    ) -> None:
        self._groups = groups
        self.id = member_id
        self._fields = {"group_id": group_id, "member_id": member_id, **fields}
        self.instance_id: str | None = fields.get("instance_id")
        self.topics = list(topics)
        self.epoch = 0
        self.reads: set[Partition] = set()
        self._must_report = True

    def subscribe(self, *topics: str) -> None:
        self.topics = list(topics)
        self.beat(subscribed_topic_names=self.topics)

    def join(self) -> int:
        """Join and return the error code, as all of these methods do."""
        self.epoch = 0
        self.reads.clear()
        fields: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []}
        if self.topics or "subscribed_topic_regex" not in self._fields:
            fields["subscribed_topic_names"] = self.topics
        return self._send(fields)

    def beat(self, **fields: Any) -> int:
        if self._must_report:
            fields["topic_partitions"] = self.report()
        instance = {} if self.instance_id is None else {"instance_id": self.instance_id}
        return self._send({**instance, **fields}, keep_regex=False)

    def leave(self, epoch: int = -1) -> int:
        answer = self._groups.heartbeat(
            **{name: self._fields[name] for name in ("group_id", "member_id")},
            instance_id=self.instance_id,
            member_epoch=epoch,
        )
        self.reads.clear()
        return int(answer.error_code)

    def report(self) -> list[TopicPartitions]:
        topics = sorted({topic for topic, _ in self.reads})
        return [
            TopicPartitions(
                self._groups.topic_id(name),
                sorted(index for topic, index in self.reads if topic == name),
            )
            for name in topics
            if name in self._groups.machine.broker.metadata.image.topics
        ]

    def _send(self, fields: dict[str, Any], *, keep_regex: bool = True) -> int:
        always = dict(self._fields)
        if not keep_regex:
            always.pop("subscribed_topic_regex", None)
            always.pop("server_assignor", None)
        answer = self._groups.heartbeat(**{**always, "member_epoch": self.epoch, **fields})
        if answer.error_code != 0:
            return int(answer.error_code)
        self.epoch = answer.member_epoch
        self._must_report = False
        if answer.assignment is not None:
            assigned = {
                (self._groups.name_of(topic.topic_id), index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }
            self._must_report = assigned != self.reads
            self.reads = assigned
        return 0


def settle(consumers: Iterable[Consumer], *, rounds: int = 8) -> None:
    """Let all members send heartbeats until their assignments are stable."""
    consumers = list(consumers)
    for _ in range(rounds):
        for consumer in consumers:
            assert consumer.beat() == 0, consumer.id


def shares(*consumers: Consumer) -> list[list[Partition]]:
    return [sorted(consumer.reads) for consumer in consumers]
