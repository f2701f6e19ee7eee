"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups."""

from typing import Any

from transcripts.scenarios.group_members import (
    ClassicMember,
    ConsumerMember,
    assignment,
    commit_fields,
    describe_classic,
    describe_consumer,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.transcript import Transcript

PREFIX = "listed-"
SIMPLE, OLD, NEW, COMING, GONE, WORKERS = (
    f"{PREFIX}{name}" for name in ("simple", "old", "new", "coming", "gone", "workers")
)
TOPIC = "listed-topic"


def of_this_scenario(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the groups of this scenario."""
    kept = [each for each in answer["groups"] if each["group_id"].startswith(PREFIX)]
    return {**answer, "groups": kept}


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 2)
    wait_for_coordinator(transcript, SIMPLE, OLD, NEW, COMING, GONE, WORKERS)
    anna, ben = create_groups(transcript)
    listing(transcript)
    describing(transcript)
    deleting(transcript, anna, ben)


def create_groups(transcript: Transcript) -> tuple[ClassicMember, ConsumerMember]:
    """Create one group in each state."""
    transcript.request_unrecorded("OffsetCommit", 9, commit_fields(SIMPLE, TOPIC, {0: 1}))
    anna = ClassicMember(transcript, "anna", OLD, subscription(TOPIC), version=3)
    anna.join("anna joins a classic group")
    anna.sync("anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1]})})
    ben = ConsumerMember(transcript, "ben", NEW, [TOPIC])
    ben.join("ben joins a consumer group")
    carla = ClassicMember(transcript, "carla", COMING, subscription(TOPIC), version=3)
    carla.join("carla joins a classic group and does not sync")
    dora = ConsumerMember(transcript, "dora", GONE, [TOPIC])
    dora.join("dora joins a consumer group")
    dora.commit("dora commits", TOPIC, {1: 9})
    dora.leave("dora leaves")
    emil = ClassicMember(transcript, "emil", WORKERS, b"a worker's wishes", version=3)
    emil.join("emil joins a group of Connect workers", protocol_type="connect")
    emil.sync("emil assigns to himself", {emil.id: b"all the work"}, protocol_type="connect")
    wait_for_state(transcript, OLD, "Stable", 1)
    return anna, ben


def listing(transcript: Transcript) -> None:
    for version in range(6):
        transcript.request("all groups", "ListGroups", version, keep=of_this_scenario)

    def filtered(title: str, version: int = 5, **more: list[str]) -> None:
        fields = {f"{key}_filter": value for key, value in more.items()}
        transcript.request(title, "ListGroups", version, fields, keep=of_this_scenario)

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
    filtered("stable classic groups", states=["Stable"], types=["classic"])
    filtered("groups of two types", states=["Empty"], types=["classic", "consumer"])


def describing(transcript: Transcript) -> None:
    for version in range(7):
        describe_classic(transcript, "a classic group", OLD, version=version)
        describe_classic(transcript, "an unknown group", "listed-nobody", version=version)
    several = (SIMPLE, OLD, NEW, COMING, GONE, WORKERS, "listed-nobody", "")
    describe_classic(transcript, "several groups", *several, version=5)
    describe_classic(transcript, "several groups", *several, version=6)
    describe_classic(transcript, "no groups")
    describe_classic(transcript, "the same group twice", OLD, OLD)
    fields = {"groups": [OLD, "listed-nobody"], "include_authorized_operations": True}
    for version in (3, 5, 6):
        transcript.request("with authorized operations", "DescribeGroups", version, fields)
    describe_consumer(
        transcript, "several groups, as consumer groups", SIMPLE, OLD, NEW, COMING, GONE, WORKERS
    )
    describe_consumer(
        transcript, "with authorized operations", NEW, include_authorized_operations=True
    )


def deleting(transcript: Transcript, anna: ClassicMember, ben: ConsumerMember) -> None:
    def deleted(title: str, *names: str, version: int = 2) -> None:
        transcript.request(title, "DeleteGroups", version, {"groups_names": list(names)})

    deleted("groups with members are not deleted", OLD, NEW, COMING, WORKERS)
    deleted("an unknown group", "listed-nobody", version=0)
    deleted("an empty group id", "", version=1)
    deleted("no groups")
    deleted("a group without members and one with members", SIMPLE, OLD)
    deleted("a second deletion fails", SIMPLE)
    deleted("the same group twice", GONE, GONE)
    anna.leave("anna leaves")
    ben.leave("ben leaves")
    deleted("groups without members are deleted", OLD, NEW)
    for group in (SIMPLE, OLD, NEW, GONE):
        offsets = {"group_id": group, "topics": None}
        transcript.request("no offsets are left", "OffsetFetch", 7, offsets)
    transcript.request("the remaining groups", "ListGroups", 5, keep=of_this_scenario)
    anna.join("anna's member id is unknown")
    again = ClassicMember(transcript, "anna, restarted", OLD, subscription(TOPIC), version=3)
    again.join("generations start at 1 again")
