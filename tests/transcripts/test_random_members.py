"""Random requests of group members get the same responses from Kafka and from Sawlog.

The seed chooses the order. After each request both brokers must have answered the same members with
the same responses, and hold back the requests of the same members.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from support.kafka.kafka_broker import running_kafka
from support.server.broker_process import running_sawlog
from support.tiers import rounds
from transcripts.catalog import SETTINGS
from transcripts.plain_values import plain_response
from transcripts.scenarios.group_members import (
    ClassicMember,
    ConsumerMember,
    assignment,
    commit_fields,
    subscription,
    wait_for_coordinator,
)
from transcripts.script_client import CLOSED
from transcripts.steps import diff
from transcripts.text_form import scalar
from transcripts.transcript import Transcript

STEPS = 35
TOPIC, PARTITIONS = "random-members", 6
QUIET_S = 0.1
"""A request without a response by then is taken as held back, at first."""
SLOW_BROKER_S = 10
"""The time in which both brokers must hold back the requests of the same members."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

HEARTBEAT = "ConsumerGroupHeartbeat"
GROUPS: dict[str, list[tuple[str, type, str | None]]] = {
    "classic": [("anna", ClassicMember, None), ("ben", ClassicMember, None)],
    "static": [
        ("anna", ClassicMember, "desk"),
        ("ben", ClassicMember, None),
        ("carla", ClassicMember, "desk"),
    ],
    "consumer": [
        ("anna", ConsumerMember, None),
        ("ben", ConsumerMember, None),
        ("carla", ConsumerMember, None),
    ],
    "consumer-static": [
        ("anna", ConsumerMember, "desk"),
        ("ben", ConsumerMember, None),
        ("carla", ConsumerMember, "desk"),
    ],
}


class Action(NamedTuple):
    """The next request of a member; its fields depend on the responses before it."""

    member: str
    name: str
    epoch_delta: int
    """Added to the right generation or epoch in the request."""
    chances: tuple[float, ...]
    topics: list[str]


class Side:
    """The members of one group, connected to one broker."""

    def __init__(self, server: Any, group: str, group_kind: str) -> None:
        self.transcript = Transcript(server.host, server.port)
        self.group = group
        wait_for_coordinator(self.transcript, group)
        describe = self.transcript.request_unrecorded("Metadata", 12, {"topics": [{"name": TOPIC}]})
        assert describe.topics[0].error_code == 0
        self.members: dict[str, Any] = {
            name: kind(
                self.transcript,
                name,
                group,
                b"" if kind is ClassicMember else [TOPIC],
                instance=instance,
            )
            for name, kind, instance in GROUPS[group_kind]
        }
        self.members["visitor"] = Visitor(self.transcript)
        self.waiting: set[str] = set()

    def send(self, action: Action) -> None:
        member = self.members[action.member]
        api, version, fields = request_of(member, self.group, action)
        member.client.send(action.name, api, version, fields)
        self.waiting.add(action.member)

    def receive(self, within_s: float) -> dict[str, Any]:
        """Responses by member, until none has come for `within_s`."""
        received: dict[str, tuple[int, Any]] = {}
        until = time.monotonic() + within_s
        while self.waiting and (left := until - time.monotonic()) > 0:
            ready = [name for name in self.waiting if self.members[name].client.has_response(0.0)]
            if not ready:
                self.members[min(self.waiting)].client.has_response(min(left, 0.005))
            for name in ready:
                _, version, response = self.members[name].client.receive_unrecorded()
                self.members[name].on_response(response)
                received[name] = (version, response)
                self.waiting.remove(name)
                until = time.monotonic() + within_s
        # All ids have their names only when all responses are in.
        return {name: self._plain(*received[name]) for name in sorted(received)}

    def _plain(self, version: int, response: Any) -> Any:
        if response is None:
            return CLOSED
        return comparable(
            json.loads(json.dumps(plain_response(response, version, self.transcript.names)))
        )


class Visitor:
    """A client that is not a member of the group."""

    def __init__(self, transcript: Transcript) -> None:
        self.client = transcript.open_client("visitor")

    def on_response(self, response: Any) -> None:
        """It keeps no state."""


def comparable(value: Any) -> Any:
    """Sort all lists; member ids that no client has received yet have no names."""
    if isinstance(value, Mapping):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((comparable(each) for each in value), key=json.dumps)
    return "<unnamed>" if isinstance(value, str) and UUID.search(value) else value


def request_of(member: Any, group: str, action: Action) -> tuple[str, int, dict[str, Any]]:
    if isinstance(member, Visitor):
        return VISITS[action.name][0], VISITS[action.name][1], visit(group, action.name)
    if isinstance(member, ClassicMember):
        return classic_request(member, action)
    return consumer_request(member, action)


VISITS = {
    "describes": ("DescribeGroups", 6),
    "describes as a consumer group": ("ConsumerGroupDescribe", 1),
    "fetches offsets": ("OffsetFetch", 9),
    "commits from outside": ("OffsetCommit", 9),
    "deletes the group": ("DeleteGroups", 2),
    "deletes an offset": ("OffsetDelete", 0),
}


def visit(group: str, action: str) -> dict[str, Any]:
    one = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    return {
        "describes": {"groups": [group]},
        "describes as a consumer group": {"group_ids": [group]},
        "fetches offsets": {"groups": [{"group_id": group, "topics": None}]},
        "commits from outside": commit_fields(group, TOPIC, {0: 7}),
        "deletes the group": {"groups_names": [group]},
        "deletes an offset": {"group_id": group, "topics": one},
    }[action]


def classic_request(member: ClassicMember, action: Action) -> tuple[str, int, dict[str, Any]]:
    generation = {"generation_id": member.generation + action.epoch_delta}
    if action.name == "joins":
        # Sawlog applies the subscription of a restarted static member at once, Kafka only after a
        # reload of the group.
        topics = action.topics if member.instance is None else [TOPIC]
        member.metadata = subscription(*topics, owned={} if action.chances[0] < 0.7 else None)
        member.protocols = ("range", "roundrobin") if action.chances[1] < 0.3 else ("range",)
        version = 9 if action.chances[2] < 0.6 else 8 if member.instance else 3
        without_id = {"member_id": ""} if action.chances[3] < 0.05 else {}
        return "JoinGroup", version, member.join_fields(**without_id)
    if action.name == "syncs":
        member_ids = sorted(
            member.others, key=lambda each: str(member.client.names.scalar("", each))
        )
        assignments = {
            each: assignment({TOPIC: [place]}, 1) for place, each in enumerate(member_ids)
        }
        return "SyncGroup", 5, member.sync_fields(assignments, **generation)
    if action.name == "sends a heartbeat":
        return "Heartbeat", 4, member.heartbeat_fields(**generation)
    if action.name == "leaves":
        by_instance = member.instance is not None and action.chances[0] < 0.3
        entry = {
            "member_id": "" if by_instance else member.id,
            "group_instance_id": member.instance,
        }
        return "LeaveGroup", 5, {"group_id": member.group, "members": [entry]}
    fields = commit_fields(
        member.group, TOPIC, {1: 5}, member.id, member.generation + action.epoch_delta
    )
    return "OffsetCommit", 9, fields | {"group_instance_id": member.instance}


def consumer_request(member: ConsumerMember, action: Action) -> tuple[str, int, dict[str, Any]]:
    if action.name == "joins":
        return HEARTBEAT, 1, member.join_fields() | {"subscribed_topic_names": action.topics}
    if action.name == "leaves":
        temporarily = member.instance is not None and action.chances[0] < 0.5
        return HEARTBEAT, 1, member.heartbeat_fields(member_epoch=-2 if temporarily else -1)
    if action.name == "commits":
        return (
            "OffsetCommit",
            9,
            commit_fields(member.group, TOPIC, {1: 5}, member.id, member.epoch),
        )
    fields = member.heartbeat_fields(member_epoch=member.epoch + action.epoch_delta)
    if action.chances[0] < 0.7:
        some = 1 if action.chances[1] < 0.25 else PARTITIONS
        owned = [{"topic_id": id_, "partitions": have[:some]} for id_, have in member.owned.items()]
        fields |= {"topic_partitions": owned, "rebalance_timeout_ms": member.rebalance_ms}
    if action.chances[2] < 0.12:
        fields["subscribed_topic_names"] = action.topics
    return HEARTBEAT, 1, fields


def next_action(random: Random, side: Side) -> Action:
    idle = sorted(side.members.keys() - side.waiting)
    name = random.choice(idle)
    member = side.members[name]
    if isinstance(member, Visitor):
        action = random.choices(list(VISITS), [4, 4, 2, 1, 1, 1])[0]
    elif isinstance(member, ClassicMember):
        actions = ["joins", "syncs", "sends a heartbeat", "leaves", "commits"]
        action = random.choices(actions, [8, 7, 3, 1, 2])[0]
    else:
        actions = ["joins", "sends a heartbeat", "leaves", "commits"]
        action = random.choices(actions, [0.6 if member.epoch > 0 else 4, 8, 1, 1.5])[0]
    topics = random.choice([[TOPIC]] * 6 + [["nowhere"], [TOPIC, "nowhere"]])
    epoch_delta = random.choice([0] * 8 + [-1, 1])
    return Action(name, action, epoch_delta, tuple(random.random() for _ in range(4)), topics)


def is_sync_dropped_by_kafka(kafka: dict[str, Any], sawlog: dict[str, Any]) -> bool:
    """Kafka never responses the pending SyncGroup of a member that it removes."""
    more = [sawlog[name] for name in sawlog.keys() - kafka.keys()]
    return bool(more) and all(
        each["error_code"] == "UNKNOWN_MEMBER_ID" and "assignment" in each for each in more
    )


def as_text(responses: Mapping[str, Any]) -> str:
    """One line for the response to each member."""
    return "\n".join(f"{name}: {scalar(response)}" for name, response in sorted(responses.items()))


def run_actions(kafka: Any, sawlog: Any, seed: int, kind: str) -> list[str]:
    """Run one seed; the log up to the first difference, or nothing."""
    random = Random(seed)
    group = f"random-{seed}"
    sides = [Side(server, group, kind) for server in (kafka, sawlog)]
    log: list[str] = []
    try:
        for _ in range(STEPS):
            action = next_action(random, sides[0])
            for side in sides:
                side.send(action)
            received = [side.receive(QUIET_S) for side in sides]
            until = time.monotonic() + SLOW_BROKER_S
            while sides[0].waiting != sides[1].waiting and time.monotonic() < until:
                for place, side in enumerate(sides):
                    received[place] |= side.receive(QUIET_S)
            if is_sync_dropped_by_kafka(*received):
                return []
            log.append(f"{action}: {received[0]}")
            wrong = diff(*(as_text(responses) for responses in received)).splitlines()
            if wrong or sides[0].waiting != sides[1].waiting:
                return [*log, *wrong, f"{kind}, seed {seed}: {[side.waiting for side in sides]}"]
    finally:
        for side in sides:
            side.transcript.close()
    return []


@pytest.mark.parametrize("seeds", rounds(long=8, soak=500))
def test_random_requests_of_members_are_answered_as_by_kafka(
    tmp_path: Path, random_seed: int, seeds: int
) -> None:
    with (
        running_kafka(tmp_path / "kafka", SETTINGS) as kafka,
        running_sawlog(tmp_path / "sawlog", SETTINGS) as sawlog,
    ):
        for server in (kafka, sawlog):
            transcript = Transcript(server.host, server.port)
            transcript.create_topic(TOPIC, PARTITIONS)
            transcript.close()
        for number in range(seeds):
            kind = list(GROUPS)[number % len(GROUPS)]
            difference = run_actions(kafka, sawlog, random_seed + number, kind)
            assert difference == [], "\n".join(difference)
