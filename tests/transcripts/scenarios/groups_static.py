"""Static members (KIP-345): a restart does not rebalance, and duplicates are fenced."""

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
    two_members_join(transcript, anna, ben)
    ben_2 = ben.restarted(transcript, "ben, 2nd start")
    follower_restarts(transcript, ben, ben_2)
    fenced(ben)
    anna_2 = anna.restarted(transcript, "anna, 3rd start")
    leader_restarts(transcript, anna, anna_2)
    anna_2, ben_4 = changed_subscription(transcript, anna_2, ben_2)
    duplicates(transcript, anna_2, ben_4)
    mixed_identities(transcript, ben_4)
    leaving(transcript)


def two_members_join(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.join("anna joins with an instance id and without a member id")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    ben.send_join("ben joins with an instance id")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.send_join("anna rejoins")
    ben.receive_join("ben has joined")
    anna.receive_join("anna leads")
    ben.send_sync("ben syncs and waits for the leader")
    anna.sync("anna assigns", halves(anna, ben))
    ben.receive_sync("ben gets his assignment")
    describe_classic(transcript, "two static members", GROUP)
    anna.heartbeat("a heartbeat with the instance id")
    anna.heartbeat("a heartbeat without the instance id", group_instance_id=None)
    anna.commit("a commit with the instance id", TOPIC, {0: 1})


def halves(first: ClassicMember, second: ClassicMember) -> dict[str, bytes]:
    return {first.id: assignment({TOPIC: [0, 1]}), second.id: assignment({TOPIC: [2, 3]})}


def follower_restarts(transcript: Transcript, ben: ClassicMember, again: ClassicMember) -> None:
    again.join("ben restarts and joins without a rebalance")
    again.sync("ben gets his previous assignment")
    describe_classic(transcript, "the group is stable, with ben's new member id", GROUP)
    ben.heartbeat("ben's previous member id is fenced")


def fenced(ben: ClassicMember) -> None:
    ben.heartbeat("the previous member id without the instance id", group_instance_id=None)
    ben.commit("a commit of the fenced member", TOPIC, {2: 99})
    ben.commit(
        "a commit of the fenced member without the instance id",
        TOPIC,
        {2: 99},
        group_instance_id=None,
    )
    ben.sync("a sync of the fenced member")
    ben.join("a join of the fenced member")
    ben.leave("a leave of the fenced member", group_instance_id=ben.instance)
    ben.leave("a leave of the fenced member without the instance id")
    ben.heartbeat("a heartbeat with an unknown instance id", group_instance_id="desk-x")
    ben.join("a join with an unknown instance id and a member id", group_instance_id="desk-x")


def leader_restarts(transcript: Transcript, anna: ClassicMember, again: ClassicMember) -> None:
    old = anna.restarted(transcript, "anna, 2nd start")
    old.version = 8
    old.join("the leader restarts with version 8: another member id leads")
    old.sync("anna gets her previous assignment")
    again.join("the leader restarts and skips the assignment (KIP-814)")
    again.sync("anna gets her previous assignment")
    anna.heartbeat("anna's first member id is fenced")
    old.heartbeat("anna's second member id is fenced")


def changed_subscription(
    transcript: Transcript, anna: ClassicMember, ben: ClassicMember
) -> tuple[ClassicMember, ClassicMember]:
    ben_3 = ben.restarted(transcript, "ben, 3rd start")
    ben_3.metadata = subscription(TOPIC, "static-topic-2")
    ben_3.join("ben restarts with another subscription, without a rebalance")
    ben_3.sync("ben gets his previous assignment")
    ben_4 = ben_3.restarted(transcript, "ben, 4th start")
    ben_4.protocols = ("roundrobin",)
    ben_4.send_join("ben restarts with another protocol, which starts a rebalance")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.heartbeat("anna learns of the rebalance")
    anna.send_join("anna rejoins")
    ben_4.receive_join("ben has joined")
    anna.receive_join("anna leads")
    ben_3.heartbeat("ben's third member id is fenced")
    anna.sync("anna assigns", halves(anna, ben_4))
    ben_4.sync("ben gets his assignment")
    return anna, ben_4


def duplicates(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.send_join("the leader rejoins, which starts a rebalance")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    double = anna.restarted(transcript, "anna's double")
    double.send_join("another client joins with anna's instance id")
    anna.receive_join("anna is fenced")
    ben.send_join("ben rejoins")
    double.receive_join("anna's double leads")
    ben.receive_join("ben has joined")
    third = double.restarted(transcript, "anna's second double")
    ben.send_sync("ben syncs and waits for the leader")
    third.send_join(
        "a third client joins with anna's instance id in CompletingRebalance: a new rebalance"
    )
    ben.receive_sync("ben's sync completes")
    ben.send_join("ben rejoins")
    third.receive_join("the third double leads")
    ben.receive_join("ben has joined")
    double.heartbeat("the second double is fenced")
    third.sync("the third double assigns", halves(third, ben))
    ben.sync("ben gets his assignment")
    describe_classic(transcript, "still two static members", GROUP)


def mixed_identities(transcript: Transcript, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), protocols=ben.protocols)
    carla.join("carla joins without an instance id and gets a member id")
    carla.join("carla's member id with ben's instance id", group_instance_id=ben.instance)
    carla.join("carla's member id with a new instance id", group_instance_id="desk-c")
    carla.leave("carla leaves before joining")
    carla.join("carla's member id is unknown")
    dora = ClassicMember(transcript, "dora", GROUP, b"", instance="desk-d", protocols=ben.protocols)
    dora.join("an unknown member id with a new instance id", member_id="a stranger")
    ben.heartbeat("ben's member id with anna's instance id", group_instance_id="desk-a")
    ben.heartbeat("ben's heartbeat succeeds")


def leaving(transcript: Transcript) -> None:
    def leave(title: str, version: int, *members: tuple[str, str | None]) -> None:
        entries: list[dict[str, Any]] = [
            {"member_id": member, "group_instance_id": instance} for member, instance in members
        ]
        transcript.request(title, "LeaveGroup", version, {"group_id": GROUP, "members": entries})

    leave("LeaveGroup for an unknown instance id", 3, ("", "desk-x"))
    leave("LeaveGroup without member id and instance id", 5, ("", None))
    leave("LeaveGroup for anna's instance id with a wrong member id", 4, ("a stranger", "desk-a"))
    leave(
        "LeaveGroup for anna's instance id, and for an unknown member",
        4,
        ("", "desk-a"),
        ("a stranger", None),
    )
    leave("LeaveGroup for ben's instance id, twice", 5, ("", "desk-b"), ("", "desk-b"))
    describe_classic(transcript, "no member is left", GROUP)
    leave("LeaveGroup in an empty group", 5, ("", "desk-b"))
    leave("LeaveGroup without members", 5)
