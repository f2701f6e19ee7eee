"""Static members (KIP-345): who comes back under the same name disturbs nobody, and two under one
name cannot be."""

from typing import Any

from transcripts.scenarios.group_members import (
    ClassicMember,
    assignment,
    describe_classic,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.transcript import Transcript

GROUP = "static"
TOPIC = "static-topic"


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, GROUP)
    both = ("range", "roundrobin")
    anna = ClassicMember(
        transcript, "anna", GROUP, subscription(TOPIC), instance="desk-a", protocols=both
    )
    ben = ClassicMember(
        transcript, "ben", GROUP, subscription(TOPIC), instance="desk-b", protocols=both
    )
    two_come(transcript, anna, ben)
    ben_2 = ben.restarted(transcript, "ben's second life")
    follower_restarts(transcript, ben, ben_2)
    fenced(ben)
    anna_2 = anna.restarted(transcript, "anna's second life")
    leader_restarts(transcript, anna, anna_2)
    anna_2, ben_4 = other_wishes(transcript, anna_2, ben_2)
    two_at_once(transcript, anna_2, ben_4)
    strangers(transcript, ben_4)
    leaving(transcript)


def two_come(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.join("anna joins under the name of her desk, and needs no id for that")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})})
    ben.send_join("ben joins under the name of his")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.send_join("anna comes back")
    ben.receive_join("ben is in")
    anna.receive_join("anna leads")
    ben.send_sync("ben waits for his assignment")
    anna.sync("anna assigns", halves(anna, ben))
    ben.receive_sync("ben has his half")
    describe_classic(transcript, "two at their desks", GROUP)
    anna.heartbeat("a heartbeat under the name")
    anna.heartbeat("a heartbeat without it", group_instance_id=None)
    anna.commit("a commit under the name", TOPIC, {0: 1})


def halves(first: ClassicMember, second: ClassicMember) -> dict[str, bytes]:
    return {first.id: assignment({TOPIC: [0, 1]}), second.id: assignment({TOPIC: [2, 3]})}


def follower_restarts(transcript: Transcript, ben: ClassicMember, again: ClassicMember) -> None:
    again.join("ben restarts and joins under the same name: nothing is rebalanced")
    again.sync("he has what he had")
    describe_classic(transcript, "the group is stable, with ben's new id", GROUP)
    ben.heartbeat("ben's first life is fenced")


def fenced(ben: ClassicMember) -> None:
    ben.heartbeat("even its id alone is gone", group_instance_id=None)
    ben.commit("it cannot commit", TOPIC, {2: 99})
    ben.commit("it cannot commit without the name", TOPIC, {2: 99}, group_instance_id=None)
    ben.sync("it cannot ask for its assignment")
    ben.join("it cannot join")
    ben.leave("it cannot leave", group_instance_id=ben.instance)
    ben.leave("it cannot leave without the name")
    ben.heartbeat("a name that nobody has", group_instance_id="desk-x")
    ben.join("nor join under it", group_instance_id="desk-x")


def leader_restarts(transcript: Transcript, anna: ClassicMember, again: ClassicMember) -> None:
    old = anna.restarted(transcript, "anna, older")
    old.version = 8
    old.join("the leader restarts, with an old client: it is told that somebody else leads")
    old.sync("she has what she had")
    again.join("the leader restarts: she leads, and need not assign (KIP-814)")
    again.sync("she has what she had")
    anna.heartbeat("anna's first life is fenced")
    old.heartbeat("and so is the second one")


def other_wishes(
    transcript: Transcript, anna: ClassicMember, ben: ClassicMember
) -> tuple[ClassicMember, ClassicMember]:
    ben_3 = ben.restarted(transcript, "ben's third life")
    ben_3.metadata = subscription(TOPIC, "static-topic-2")
    ben_3.join("ben restarts with other wishes, and even that is no rebalance")
    ben_3.sync("he has what he had")
    ben_4 = ben_3.restarted(transcript, "ben's fourth life")
    ben_4.protocols = ("roundrobin",)
    ben_4.send_join("ben restarts with another protocol, and that is a rebalance")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.heartbeat("anna hears of it")
    anna.send_join("anna comes back")
    ben_4.receive_join("ben is in")
    anna.receive_join("anna leads")
    ben_3.heartbeat("ben's third life is fenced")
    anna.sync("anna assigns", halves(anna, ben_4))
    ben_4.sync("ben has his half")
    return anna, ben_4


def two_at_once(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.send_join("the leader asks for a rebalance")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    double = anna.restarted(transcript, "anna's double")
    double.send_join("somebody sits down at anna's desk while she waits")
    anna.receive_join("anna is fenced")
    ben.send_join("ben comes back")
    double.receive_join("anna's double leads")
    ben.receive_join("ben is in")
    third = double.restarted(transcript, "anna's third double")
    ben.send_sync("ben waits for his assignment")
    third.send_join("yet another at anna's desk, while the group completes: it begins anew")
    ben.receive_sync("ben is told")
    ben.send_join("ben comes back")
    third.receive_join("the third double leads")
    ben.receive_join("ben is in")
    double.heartbeat("the second double is fenced")
    third.sync("the third double assigns", halves(third, ben))
    ben.sync("ben has his half")
    describe_classic(transcript, "still two at their desks", GROUP)


def strangers(transcript: Transcript, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), protocols=ben.protocols)
    carla.join("carla has no desk, and is given an id")
    carla.join("her id with ben's desk", group_instance_id=ben.instance)
    carla.join("her id with a new desk", group_instance_id="desk-c")
    carla.leave("she leaves before she joined")
    carla.join("her id is gone")
    dora = ClassicMember(transcript, "dora", GROUP, b"", instance="desk-d", protocols=ben.protocols)
    dora.join("an id that nobody gave her", member_id="a stranger")
    ben.heartbeat("ben's id with somebody else's desk", group_instance_id="desk-a")
    ben.heartbeat("all is well with ben")


def leaving(transcript: Transcript) -> None:
    def leave(title: str, version: int, *members: tuple[str, str | None]) -> None:
        entries: list[dict[str, Any]] = [
            {"member_id": member, "group_instance_id": instance} for member, instance in members
        ]
        transcript.request(title, "LeaveGroup", version, {"group_id": GROUP, "members": entries})

    leave("somebody shows a stranger out", 3, ("", "desk-x"))
    leave("and somebody without any name", 5, ("", None))
    leave("anna's desk under a wrong id", 4, ("a stranger", "desk-a"))
    leave("anna's desk by its name, and a stranger", 4, ("", "desk-a"), ("a stranger", None))
    leave("ben's desk twice", 5, ("", "desk-b"), ("", "desk-b"))
    describe_classic(transcript, "nobody is left", GROUP)
    leave("nobody can leave", 5, ("", "desk-b"))
    leave("no members named", 5)
