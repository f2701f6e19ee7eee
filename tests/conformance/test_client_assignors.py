"""The assignors of Sawlog's client return the same assignments as those of Kafka's Java client."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from sawlog.client.consumer.membership.client_assignors import ASSIGNORS, Subscriber
from support.kafka.recordings import check_recording, digest, recorded, run_java

RECORDING = "client-assignors"
PROGRAM = Path(__file__).with_name("RunClientAssignors.java")
CASES = 400


class Case(NamedTuple):
    """Subscriptions and partition counts: the input of an assignor."""

    assignor: str
    members: dict[str, Subscriber]
    sizes: dict[str, int]

    def line(self) -> str:
        sizes = ",".join(f"{topic}={size}" for topic, size in self.sizes.items())
        members = (
            f"{name}/{each.instance_id or ''}/{','.join(sorted(each.topics))}"
            for name, each in self.members.items()
        )
        return "|".join((self.assignor, sizes, *members))

    def ours(self) -> str:
        found = ASSIGNORS[self.assignor](self.members, self.sizes)
        return "|".join(
            f"{member}/{','.join(sorted(str(each) for each in found[member]))}"
            for member in sorted(found)
        )


def case_of(seed: int) -> Case:
    choose = random.Random(seed)
    sizes = {f"t{n}": choose.choice((1, 2, 3, 7, 12)) for n in range(choose.randint(1, 5))}
    names = [*sizes, "not-there"]
    members = {}
    for _ in range(choose.randint(1, 8)):
        name = choose.randbytes(4).hex()
        instance = f"i{choose.randint(0, 99)}-{name}" if choose.random() < 0.3 else None
        topics = frozenset(choose.sample(names, choose.randint(1, len(names))))
        members[name] = Subscriber(topics, instance_id=instance)
    return Case(choose.choice(("range", "roundrobin")), members, sizes)


def test_assignments_are_those_of_the_java_client() -> None:
    for seed, expected in zip(range(CASES), recorded(RECORDING), strict=True):
        case = case_of(seed)
        assert digest(case.line(), case.ours()) == expected, case.line()


@pytest.mark.soak
def test_the_recording_is_what_the_java_client_returns() -> None:
    lines = [case_of(seed).line() for seed in range(CASES)]
    outputs = run_java(PROGRAM, lines)
    check_recording(RECORDING, [digest(*pair) for pair in zip(lines, outputs, strict=True)])
