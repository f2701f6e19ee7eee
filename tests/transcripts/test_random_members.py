"""Members of groups who do what they like say it to both brokers, and are told the same by both.

Nobody chose the order here: after each request both brokers must have given the same answers to
the same members, and keep the same members waiting.
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
from transcripts.chapters.groups_requests import (
    Classic,
    Modern,
    commit,
    coordinator_is_ready,
    share,
    wishes,
)
from transcripts.dialogue import Dialogue
from transcripts.plain import plain_response
from transcripts.script import SETTINGS
from transcripts.speaker import CLOSED
from transcripts.steps import diff
from transcripts.text_form import scalar

STEPS = 35
TOPIC, PARTITIONS = "random-members", 6
QUIET_S = 0.1
"""Who has no answer by then is made to wait; a slow broker gets far more before it is judged."""
PATIENCE_S = 10
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

CASTS: dict[str, list[tuple[str, type, str | None]]] = {
    "classic": [("anna", Classic, None), ("ben", Classic, None)],
    "static": [("anna", Classic, "desk"), ("ben", Classic, None), ("carla", Classic, "desk")],
    "consumer": [("anna", Modern, None), ("ben", Modern, None), ("carla", Modern, None)],
    "consumer-static": [("anna", Modern, "desk"), ("ben", Modern, None), ("carla", Modern, "desk")],
}


class DeleteRequest(NamedTuple):
    """What somebody does next; what it means depends on what they were told before."""

    who: str
    what: str
    off: int
    """How far the generation or epoch in the request is from the right one."""
    chances: tuple[float, ...]
    topics: list[str]


class Side:
    """The cast in front of one broker."""

    def __init__(self, server: Any, group: str, cast: str) -> None:
        self.talk = Dialogue(server.host, server.port)
        self.group = group
        coordinator_is_ready(self.talk, group)
        describe = self.talk.quietly("Metadata", 12, {"topics": [{"name": TOPIC}]})
        assert describe.topics[0].error_code == 0
        self.members: dict[str, Any] = {
            name: kind(self.talk, name, group, b"" if kind is Classic else [TOPIC], instance=desk)
            for name, kind, desk in CASTS[cast]
        }
        self.members["visitor"] = Visitor(self.talk)
        self.waiting: set[str] = set()

    def say(self, wish: DeleteRequest) -> None:
        member = self.members[wish.who]
        api, version, fields = request_of(member, self.group, wish)
        member.voice.begin(wish.what, api, version, fields)
        self.waiting.add(wish.who)

    def hear(self, within_s: float) -> dict[str, Any]:
        """Answers that come before it has been quiet for so long; by member, comparable."""
        heard: dict[str, tuple[int, Any]] = {}
        until = time.monotonic() + within_s
        while self.waiting and (left := until - time.monotonic()) > 0:
            ready = [name for name in self.waiting if self.members[name].voice.has_news(0.0)]
            if not ready:
                self.members[min(self.waiting)].voice.has_news(min(left, 0.005))
            for name in ready:
                _, version, answer = self.members[name].voice.take()
                self.members[name].heard(answer)
                heard[name] = (version, answer)
                self.waiting.remove(name)
                until = time.monotonic() + within_s
        # Only now do all ids have names.
        return {name: self._plain(*heard[name]) for name in sorted(heard)}

    def _plain(self, version: int, answer: Any) -> Any:
        if answer is None:
            return CLOSED
        return comparable(json.loads(json.dumps(plain_response(answer, version, self.talk.names))))


class Visitor:
    """Looks at the group from outside."""

    def __init__(self, talk: Dialogue) -> None:
        self.voice = talk.speaker("visitor")

    def heard(self, answer: Any) -> None:
        """Remembers nothing."""


def comparable(value: Any) -> Any:
    """Sorted throughout; ids of members who have not heard of them yet have no names."""
    if isinstance(value, Mapping):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((comparable(each) for each in value), key=json.dumps)
    return "<unnamed>" if isinstance(value, str) and UUID.search(value) else value


def request_of(member: Any, group: str, wish: DeleteRequest) -> tuple[str, int, dict[str, Any]]:
    if isinstance(member, Visitor):
        return VISITS[wish.what][0], VISITS[wish.what][1], visit(group, wish.what)
    if isinstance(member, Classic):
        return classic_request(member, wish)
    return modern_request(member, wish)


VISITS = {
    "describes": ("DescribeGroups", 6),
    "describes the new way": ("ConsumerGroupDescribe", 1),
    "fetches offsets": ("OffsetFetch", 9),
    "commits from outside": ("OffsetCommit", 9),
    "deletes the group": ("DeleteGroups", 2),
    "deletes an offset": ("OffsetDelete", 0),
}


def visit(group: str, what: str) -> dict[str, Any]:
    one = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    return {
        "describes": {"groups": [group]},
        "describes the new way": {"group_ids": [group]},
        "fetches offsets": {"groups": [{"group_id": group, "topics": None}]},
        "commits from outside": commit(group, TOPIC, {0: 7}),
        "deletes the group": {"groups_names": [group]},
        "deletes an offset": {"group_id": group, "topics": one},
    }[what]


def classic_request(member: Classic, wish: DeleteRequest) -> tuple[str, int, dict[str, Any]]:
    generation = {"generation_id": member.generation + wish.off}
    if wish.what == "joins":
        # What a static member wishes when it restarts counts here at once, as after a reload; in
        # Kafka only then.
        topics = wish.topics if member.instance is None else [TOPIC]
        member.metadata = wishes(*topics, owned={} if wish.chances[0] < 0.7 else None)
        member.protocols = ("range", "roundrobin") if wish.chances[1] < 0.3 else ("range",)
        version = 9 if wish.chances[2] < 0.6 else 8 if member.instance else 3
        forgetful = {"member_id": ""} if wish.chances[3] < 0.05 else {}
        return "JoinGroup", version, member.joining(**forgetful)
    if wish.what == "syncs":
        everybody = sorted(member.others, key=lambda each: str(member.voice.names.scalar("", each)))
        shares = {each: share({TOPIC: [place]}, 1) for place, each in enumerate(everybody)}
        return "SyncGroup", 5, member.syncing(shares, **generation)
    if wish.what == "beats":
        return "Heartbeat", 4, member.beating(**generation)
    if wish.what == "leaves":
        by_desk = member.instance is not None and wish.chances[0] < 0.3
        entry = {"member_id": "" if by_desk else member.id, "group_instance_id": member.instance}
        return "LeaveGroup", 5, {"group_id": member.group, "members": [entry]}
    fields = commit(member.group, TOPIC, {1: 5}, member.id, member.generation + wish.off)
    return "OffsetCommit", 9, fields | {"group_instance_id": member.instance}


def modern_request(member: Modern, wish: DeleteRequest) -> tuple[str, int, dict[str, Any]]:
    beat = "ConsumerGroupHeartbeat"
    if wish.what == "joins":
        return beat, 1, member.entering() | {"subscribed_topic_names": wish.topics}
    if wish.what == "leaves":
        for_a_while = member.instance is not None and wish.chances[0] < 0.5
        return beat, 1, member.beating(member_epoch=-2 if for_a_while else -1)
    if wish.what == "commits":
        return "OffsetCommit", 9, commit(member.group, TOPIC, {1: 5}, member.id, member.epoch)
    fields = member.beating(member_epoch=member.epoch + wish.off)
    if wish.chances[0] < 0.7:
        some = 1 if wish.chances[1] < 0.25 else PARTITIONS
        owned = [{"topic_id": id_, "partitions": have[:some]} for id_, have in member.owned.items()]
        fields |= {"topic_partitions": owned, "rebalance_timeout_ms": member.rebalance_ms}
    if wish.chances[2] < 0.12:
        fields["subscribed_topic_names"] = wish.topics
    return beat, 1, fields


def next_wish(random: Random, side: Side) -> DeleteRequest | None:
    idle = sorted(side.members.keys() - side.waiting)
    who = random.choice(idle)
    member = side.members[who]
    if isinstance(member, Visitor):
        what = random.choices(list(VISITS), [4, 4, 2, 1, 1, 1])[0]
    elif isinstance(member, Classic):
        actions = ["joins", "syncs", "beats", "leaves", "commits"]
        what = random.choices(actions, [8, 7, 3, 1, 2])[0]
    else:
        actions = ["joins", "beats", "leaves", "commits"]
        what = random.choices(actions, [0.6 if member.epoch > 0 else 4, 8, 1, 1.5])[0]
    topics = random.choice([[TOPIC]] * 6 + [["nowhere"], [TOPIC, "nowhere"]])
    off = random.choice([0] * 8 + [-1, 1])
    return DeleteRequest(who, what, off, tuple(random.random() for _ in range(4)), topics)


def is_forgotten_by_kafka(kafka: dict[str, Any], sawlog: dict[str, Any]) -> bool:
    """Who waits for an assignment and is shown out meanwhile is never answered by Kafka."""
    more = [sawlog[name] for name in sawlog.keys() - kafka.keys()]
    return bool(more) and all(
        each["error_code"] == "UNKNOWN_MEMBER_ID" and "assignment" in each for each in more
    )


def as_text(answers: Mapping[str, Any]) -> str:
    """One line for the answer to each member."""
    return "\n".join(f"{name}: {scalar(answer)}" for name, answer in sorted(answers.items()))


def converse(kafka: Any, sawlog: Any, seed: int, cast: str) -> list[str]:
    """One dialogue; where the brokers part, what was said until then and what they answered."""
    random = Random(seed)
    group = f"random-{seed}"
    sides = [Side(server, group, cast) for server in (kafka, sawlog)]
    said: list[str] = []
    try:
        for _ in range(STEPS):
            wish = next_wish(random, sides[0])
            for side in sides:
                side.say(wish)
            heard = [side.hear(QUIET_S) for side in sides]
            until = time.monotonic() + PATIENCE_S
            while sides[0].waiting != sides[1].waiting and time.monotonic() < until:
                for place, side in enumerate(sides):
                    heard[place] |= side.hear(QUIET_S)
            if is_forgotten_by_kafka(*heard):
                return []
            said.append(f"{wish}: {heard[0]}")
            wrong = diff(*(as_text(answers) for answers in heard)).splitlines()
            if wrong or sides[0].waiting != sides[1].waiting:
                return [*said, *wrong, f"{cast}, seed {seed}: {[side.waiting for side in sides]}"]
    finally:
        for side in sides:
            side.talk.end()
    return []


@pytest.mark.parametrize("dialogues", rounds(long=8, soak=500))
def test_random_members_are_told_what_kafka_tells_them(
    tmp_path: Path, random_seed: int, dialogues: int
) -> None:
    with (
        running_kafka(tmp_path / "kafka", SETTINGS) as kafka,
        running_sawlog(tmp_path / "sawlog", SETTINGS) as sawlog,
    ):
        for server in (kafka, sawlog):
            talk = Dialogue(server.host, server.port)
            talk.create(TOPIC, PARTITIONS)
            talk.end()
        for number in range(dialogues):
            cast = list(CASTS)[number % len(CASTS)]
            parted = converse(kafka, sawlog, random_seed + number, cast)
            assert parted == [], "\n".join(parted)
