"""Static members (KIP-345): who comes back under the same name disturbs nobody, and two under one
name cannot be."""

from typing import Any

from transcripts.chapters.groups_requests import (
    Classic,
    coordinator_is_ready,
    described,
    share,
    until_state,
    wishes,
)
from transcripts.dialogue import Dialogue

GROUP = "static"
TOPIC = "static-topic"


def chapter(talk: Dialogue) -> None:
    talk.create(TOPIC, 4)
    coordinator_is_ready(talk, GROUP)
    both = ("range", "roundrobin")
    anna = Classic(talk, "anna", GROUP, wishes(TOPIC), instance="desk-a", protocols=both)
    ben = Classic(talk, "ben", GROUP, wishes(TOPIC), instance="desk-b", protocols=both)
    two_come(talk, anna, ben)
    ben_2 = ben.again(talk, "ben's second life")
    follower_restarts(talk, ben, ben_2)
    fenced(ben)
    anna_2 = anna.again(talk, "anna's second life")
    leader_restarts(talk, anna, anna_2)
    anna_2, ben_4 = other_wishes(talk, anna_2, ben_2)
    two_at_once(talk, anna_2, ben_4)
    strangers(talk, ben_4)
    leaving(talk)


def two_come(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    anna.joins("anna joins under the name of her desk, and needs no id for that")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]})})
    ben.begins_to_join("ben joins under the name of his")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    anna.begins_to_join("anna comes back")
    ben.has_joined("ben is in")
    anna.has_joined("anna leads")
    ben.begins_to_sync("ben waits for his assignment")
    anna.syncs("anna assigns", halves(anna, ben))
    ben.has_synced("ben has his half")
    described(talk, "two at their desks", GROUP)
    anna.beats("a heartbeat under the name")
    anna.beats("a heartbeat without it", group_instance_id=None)
    anna.commits("a commit under the name", TOPIC, {0: 1})


def halves(first: Classic, second: Classic) -> dict[str, bytes]:
    return {first.id: share({TOPIC: [0, 1]}), second.id: share({TOPIC: [2, 3]})}


def follower_restarts(talk: Dialogue, ben: Classic, again: Classic) -> None:
    again.joins("ben restarts and joins under the same name: nothing is rebalanced")
    again.syncs("he has what he had")
    described(talk, "the group is stable, with ben's new id", GROUP)
    ben.beats("ben's first life is fenced")


def fenced(ben: Classic) -> None:
    ben.beats("even its id alone is gone", group_instance_id=None)
    ben.commits("it cannot commit", TOPIC, {2: 99})
    ben.commits("it cannot commit without the name", TOPIC, {2: 99}, group_instance_id=None)
    ben.syncs("it cannot ask for its assignment")
    ben.joins("it cannot join")
    ben.leaves("it cannot leave", group_instance_id=ben.instance)
    ben.leaves("it cannot leave without the name")
    ben.beats("a name that nobody has", group_instance_id="desk-x")
    ben.joins("nor join under it", group_instance_id="desk-x")


def leader_restarts(talk: Dialogue, anna: Classic, again: Classic) -> None:
    old = anna.again(talk, "anna, older")
    old.version = 8
    old.joins("the leader restarts, with an old client: it is told that somebody else leads")
    old.syncs("she has what she had")
    again.joins("the leader restarts: she leads, and need not assign (KIP-814)")
    again.syncs("she has what she had")
    anna.beats("anna's first life is fenced")
    old.beats("and so is the second one")


def other_wishes(talk: Dialogue, anna: Classic, ben: Classic) -> tuple[Classic, Classic]:
    ben_3 = ben.again(talk, "ben's third life")
    ben_3.metadata = wishes(TOPIC, "static-topic-2")
    ben_3.joins("ben restarts with other wishes, and even that is no rebalance")
    ben_3.syncs("he has what he had")
    ben_4 = ben_3.again(talk, "ben's fourth life")
    ben_4.protocols = ("roundrobin",)
    ben_4.begins_to_join("ben restarts with another protocol, and that is a rebalance")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    anna.beats("anna hears of it")
    anna.begins_to_join("anna comes back")
    ben_4.has_joined("ben is in")
    anna.has_joined("anna leads")
    ben_3.beats("ben's third life is fenced")
    anna.syncs("anna assigns", halves(anna, ben_4))
    ben_4.syncs("ben has his half")
    return anna, ben_4


def two_at_once(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    anna.begins_to_join("the leader asks for a rebalance")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    double = anna.again(talk, "anna's double")
    double.begins_to_join("somebody sits down at anna's desk while she waits")
    anna.has_joined("anna is fenced")
    ben.begins_to_join("ben comes back")
    double.has_joined("anna's double leads")
    ben.has_joined("ben is in")
    third = double.again(talk, "anna's third double")
    ben.begins_to_sync("ben waits for his assignment")
    third.begins_to_join("yet another at anna's desk, while the group completes: it begins anew")
    ben.has_synced("ben is told")
    ben.begins_to_join("ben comes back")
    third.has_joined("the third double leads")
    ben.has_joined("ben is in")
    double.beats("the second double is fenced")
    third.syncs("the third double assigns", halves(third, ben))
    ben.syncs("ben has his half")
    described(talk, "still two at their desks", GROUP)


def strangers(talk: Dialogue, ben: Classic) -> None:
    carla = Classic(talk, "carla", GROUP, wishes(TOPIC), protocols=ben.protocols)
    carla.joins("carla has no desk, and is given an id")
    carla.joins("her id with ben's desk", group_instance_id=ben.instance)
    carla.joins("her id with a new desk", group_instance_id="desk-c")
    carla.leaves("she leaves before she joined")
    carla.joins("her id is gone")
    dora = Classic(talk, "dora", GROUP, b"", instance="desk-d", protocols=ben.protocols)
    dora.joins("an id that nobody gave her", member_id="a stranger")
    ben.beats("ben's id with somebody else's desk", group_instance_id="desk-a")
    ben.beats("all is well with ben")


def leaving(talk: Dialogue) -> None:
    def leave(title: str, version: int, *members: tuple[str, str | None]) -> None:
        entries: list[dict[str, Any]] = [
            {"member_id": member, "group_instance_id": instance} for member, instance in members
        ]
        talk.ask(title, "LeaveGroup", version, {"group_id": GROUP, "members": entries})

    leave("somebody shows a stranger out", 3, ("", "desk-x"))
    leave("and somebody without any name", 5, ("", None))
    leave("anna's desk under a wrong id", 4, ("a stranger", "desk-a"))
    leave("anna's desk by its name, and a stranger", 4, ("", "desk-a"), ("a stranger", None))
    leave("ben's desk twice", 5, ("", "desk-b"), ("", "desk-b"))
    described(talk, "nobody is left", GROUP)
    leave("nobody can leave", 5, ("", "desk-b"))
    leave("no members named", 5)
