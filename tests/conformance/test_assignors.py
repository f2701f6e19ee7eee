"""Sawlog's server-side assignors return the same assignments as Apache Kafka's."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from sawlog.core.ids import TopicId
from sawlog.groups.consumer.assignor import Assignment, MemberSpec
from sawlog.groups.consumer.server_assignors import ASSIGNORS
from support.kafka.recordings import check_recording, digest, recorded, run_java

RECORDING = "assignors"
PROGRAM = Path(__file__).with_name("RunAssignors.java")
GROUPS = 150
CHANGES = 4

Members = dict[str, MemberSpec]


class Case:
    """A group before a rebalance: the input of an assignor."""

    def __init__(self, assignor: str, members: Members, counts: dict[TopicId, int]) -> None:
        self.assignor = assignor
        self.members = members
        self.counts = counts

    def ours(self) -> dict[str, Assignment]:
        return ASSIGNORS[self.assignor](self.members, self.counts)

    def spelled(self) -> str:
        return spell_assignments(
            {member: spell_assignment(parts) for member, parts in self.ours().items()}
        )

    def line(self) -> str:
        counts = ",".join(f"{spell(topic)}={count}" for topic, count in self.counts.items())
        members = (
            f"{member}/{spec.instance_id or ''}/{','.join(map(spell, sorted(spec.topics)))}/"
            + spell_assignment(spec.current)
            for member, spec in sorted(self.members.items())
        )
        return "|".join((self.assignor, counts, *members))


def spell(topic: bytes) -> str:
    return f"{int.from_bytes(topic[:8]):x}.{int.from_bytes(topic[8:]):x}"


def spell_assignment(assignment: Mapping[TopicId, frozenset[int]]) -> str:
    return ",".join(
        f"{spell(topic)}={'+'.join(map(str, sorted(indexes)))}"
        for topic, indexes in sorted(assignment.items())
    )


def cases(seed: int) -> list[Case]:
    """One group with a few changes, each starting from Sawlog's previous assignment."""
    choose = random.Random(seed)
    counts = {
        TopicId(choose.randbytes(16)): choose.choice((1, 3, 7, 12, 40, 130))
        for _ in range(choose.randint(1, 6))
    }
    alike = choose.random() < 0.5
    assignor = choose.choice(("uniform", "uniform", "range"))
    members: Members = {}
    found = []
    for _ in range(CHANGES):
        for _ in range(choose.randint(0, 5)):
            name = choose.choice((f"m{choose.randint(1, 99)}", choose.randbytes(11).hex()))
            instance = f"i-{name}" if choose.random() < 0.3 else None
            members[name] = MemberSpec(pick_topics(choose, counts, alike), {}, instance, None)
        for member in choose.sample(sorted(members), min(len(members) // 2, choose.randint(0, 3))):
            del members[member]
        if choose.random() < 0.3:
            topic = choose.choice(sorted(counts))
            counts = {**counts, topic: counts[topic] + choose.randint(1, 20)}
        if not members:
            continue
        case = Case(assignor, dict(members), counts)
        found.append(case)
        assigned = case.ours()
        for member, spec in members.items():
            topics = spec.topics
            if not alike and choose.random() < 0.2:
                topics = pick_topics(choose, counts, alike)
            members[member] = spec._replace(topics=topics, current=assigned[member])
    return found


def pick_topics(
    choose: random.Random, counts: Mapping[TopicId, int], alike: bool
) -> frozenset[TopicId]:
    topics = sorted(counts)
    return frozenset(topics if alike else choose.sample(topics, choose.randint(1, len(topics))))


def spell_assignments(assignments: Mapping[str, str]) -> str:
    """Members and their partitions in a defined order."""
    return "|".join(
        f"{member}/{','.join(sorted(topics.split(',')))}"
        for member, topics in sorted(assignments.items())
    )


def all_cases() -> list[Case]:
    return [case for seed in range(GROUPS) for case in cases(seed)]


def test_assignments_are_those_of_kafka() -> None:
    all_of_them = all_cases()
    for case, expected in zip(all_of_them, recorded(RECORDING), strict=True):
        assert digest(case.line(), case.spelled()) == expected, case.line()


@pytest.mark.soak
def test_the_recording_is_what_kafka_returns() -> None:
    lines = [case.line() for case in all_cases()]
    outputs = [
        spell_assignments(dict(one.split("/") for one in output.split("|")))
        for output in run_java(PROGRAM, lines)
    ]
    check_recording(RECORDING, [digest(*pair) for pair in zip(lines, outputs, strict=True)])
