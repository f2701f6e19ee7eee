"""Groups as administrators see them: listed, described, deleted."""

from typing import Any

from transcripts.chapters.groups_requests import (
    Classic,
    Modern,
    commit,
    coordinator_is_ready,
    described,
    share,
    shown,
    until_state,
    wishes,
)
from transcripts.dialogue import Dialogue

PREFIX = "listed-"
SIMPLE, OLD, NEW, COMING, GONE, WORKERS = (
    f"{PREFIX}{name}" for name in ("simple", "old", "new", "coming", "gone", "workers")
)
TOPIC = "listed-topic"


def ours(answer: dict[str, Any]) -> dict[str, Any]:
    """Other groups of the broker are none of this chapter's."""
    kept = [each for each in answer["groups"] if each["group_id"].startswith(PREFIX)]
    return {**answer, "groups": kept}


def chapter(talk: Dialogue) -> None:
    talk.create(TOPIC, 2)
    coordinator_is_ready(talk, SIMPLE, OLD, NEW, COMING, GONE, WORKERS)
    anna, ben = groups(talk)
    listing(talk)
    describing(talk)
    deleting(talk, anna, ben)


def groups(talk: Dialogue) -> tuple[Classic, Modern]:
    """One group in each state."""
    talk.quietly("OffsetCommit", 9, commit(SIMPLE, TOPIC, {0: 1}))
    anna = Classic(talk, "anna", OLD, wishes(TOPIC), version=3)
    anna.joins("anna makes an old group")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1]})})
    ben = Modern(talk, "ben", NEW, [TOPIC])
    ben.joins("ben makes a new group")
    carla = Classic(talk, "carla", COMING, wishes(TOPIC), version=3)
    carla.joins("carla makes a group that waits for its assignment")
    dora = Modern(talk, "dora", GONE, [TOPIC])
    dora.joins("dora makes a group")
    dora.commits("dora commits", TOPIC, {1: 9})
    dora.leaves("dora leaves it")
    emil = Classic(talk, "emil", WORKERS, b"a worker's wishes", version=3)
    emil.joins("emil makes a group of workers", protocol_type="connect")
    emil.syncs("emil takes it all", {emil.id: b"all the work"}, protocol_type="connect")
    until_state(talk, OLD, "Stable", 1)
    return anna, ben


def listing(talk: Dialogue) -> None:
    for version in range(6):
        talk.ask("all groups", "ListGroups", version, keep=ours)

    def filtered(title: str, version: int = 5, **more: list[str]) -> None:
        fields = {f"{key}_filter": value for key, value in more.items()}
        talk.ask(title, "ListGroups", version, fields, keep=ours)

    for state in (
        "Stable",
        "stable",
        "Empty",
        "CompletingRebalance",
        "completingrebalance",
        "PreparingRebalance",
        "Dead",
        "Assigning",
        "Reconciling",
        "Unheard",
        "",
    ):
        filtered(f"groups in state {state!r}", 4, states=[state])
    filtered("groups in two states", states=["Empty", "CompletingRebalance"])
    for kind in ("classic", "consumer", "Consumer", "CLASSIC", "share", "streams", "odd", ""):
        filtered(f"groups of type {kind!r}", types=[kind])
    filtered("stable groups of the old kind", states=["Stable"], types=["classic"])
    filtered("groups of two types", states=["Empty"], types=["classic", "consumer"])


def describing(talk: Dialogue) -> None:
    for version in range(7):
        described(talk, "an old group", OLD, version=version)
        described(talk, "a group that is not known", "listed-nobody", version=version)
    several = (SIMPLE, OLD, NEW, COMING, GONE, WORKERS, "listed-nobody", "")
    described(talk, "several groups", *several, version=5)
    described(talk, "several groups", *several, version=6)
    described(talk, "no groups")
    described(talk, "the same group twice", OLD, OLD)
    fields = {"groups": [OLD, "listed-nobody"], "include_authorized_operations": True}
    for version in (3, 5, 6):
        talk.ask("with what one may do", "DescribeGroups", version, fields)
    shown(talk, "several groups, in the new way", SIMPLE, OLD, NEW, COMING, GONE, WORKERS)
    shown(talk, "with what one may do", NEW, include_authorized_operations=True)


def deleting(talk: Dialogue, anna: Classic, ben: Modern) -> None:
    def deleted(title: str, *names: str, version: int = 2) -> None:
        talk.ask(title, "DeleteGroups", version, {"groups_names": list(names)})

    deleted("groups with members stay", OLD, NEW, COMING, WORKERS)
    deleted("a group that is not known", "listed-nobody", version=0)
    deleted("no group", "", version=1)
    deleted("nothing")
    deleted("an empty one and a full one", SIMPLE, OLD)
    deleted("it cannot be deleted twice", SIMPLE)
    deleted("the same one twice", GONE, GONE)
    anna.leaves("anna leaves")
    ben.leaves("ben leaves")
    deleted("now they can be deleted", OLD, NEW)
    for group in (SIMPLE, OLD, NEW, GONE):
        offsets = {"group_id": group, "topics": None}
        talk.ask("nothing is left of it", "OffsetFetch", 7, offsets)
    talk.ask("the groups that are left", "ListGroups", 5, keep=ours)
    anna.joins("anna's old id is worth nothing")
    again = Classic(talk, "anna, anew", OLD, wishes(TOPIC), version=3)
    again.joins("generations begin anew")
