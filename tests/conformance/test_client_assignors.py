"""Who reads what, as worked out by our client and by Kafka's Java client: the same, hundreds of
times over, so that it does not matter which of them leads a group.
"""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from sawlog.client.consumer.membership.client_assignors import ASSIGNORS, Subscriber
from support.kafka.recordings import check_recording, digest, recorded, run_java

RECORDING = "client-assignors"
ORACLE = Path(__file__).with_name("AskClientAssignors.java")
QUESTIONS = 400


class Question(NamedTuple):
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


def question(seed: int) -> Question:
    choose = random.Random(seed)
    sizes = {f"t{n}": choose.choice((1, 2, 3, 7, 12)) for n in range(choose.randint(1, 5))}
    names = [*sizes, "not-there"]
    members = {}
    for _ in range(choose.randint(1, 8)):
        name = choose.randbytes(4).hex()
        instance = f"i{choose.randint(0, 99)}-{name}" if choose.random() < 0.3 else None
        topics = frozenset(choose.sample(names, choose.randint(1, len(names))))
        members[name] = Subscriber(topics, instance_id=instance)
    return Question(choose.choice(("range", "roundrobin")), members, sizes)


def test_answers_are_those_that_the_java_client_gave() -> None:
    for seed, expected in zip(range(QUESTIONS), recorded(RECORDING), strict=True):
        asked = question(seed)
        assert digest(asked.line(), asked.ours()) == expected, asked.line()


@pytest.mark.soak
def test_the_recording_is_what_the_java_client_says() -> None:
    lines = [question(seed).line() for seed in range(QUESTIONS)]
    answers = run_java(ORACLE, lines)
    check_recording(RECORDING, [digest(*pair) for pair in zip(lines, answers, strict=True)])
