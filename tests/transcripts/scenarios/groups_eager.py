"""Eager rebalances: members join, leave and time out."""

from transcripts.scenarios.group_members import (
    ClassicMember,
    assignment,
    describe_classic,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.transcript import Transcript

GROUP = "eager"
TOPIC = "eager-topic"
SHORT_MS = 2_000
REBALANCE_IN_PROGRESS = 27


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, GROUP)
    anna = first_member(transcript)
    ben = second_member(transcript, anna)
    carla = third_member(transcript, anna, ben)
    follower_leaves(transcript, anna, ben, carla)
    leader_leaves(transcript, anna, carla)
    session_timeout(transcript, carla)
    all_leave(transcript, carla)


def first_member(transcript: Transcript) -> ClassicMember:
    describe_classic(transcript, "an unknown group", GROUP)
    anna = ClassicMember(
        transcript, "anna", GROUP, subscription(TOPIC), protocols=("range", "roundrobin")
    )
    anna.join("anna gets a member id (KIP-394)")
    wait_for_state(transcript, GROUP, "Empty", 0)
    describe_classic(transcript, "the group is empty", GROUP)
    anna.join("anna joins with it and leads")
    describe_classic(transcript, "the group waits for its leader's assignment", GROUP)
    anna.heartbeat("a heartbeat before the assignment")
    anna.join("anna joins again, as if the response was lost")
    everything = {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    anna.sync("anna assigns all partitions to herself", everything)
    anna.sync("anna syncs again")
    anna.heartbeat("a heartbeat")
    describe_classic(transcript, "the group is stable", GROUP)
    anna.commit("anna commits", TOPIC, {0: 10, 1: 11})
    return anna


def second_member(transcript: Transcript, anna: ClassicMember) -> ClassicMember:
    ben = ClassicMember(transcript, "ben", GROUP, subscription(TOPIC))
    ben.join("ben gets a member id")
    anna.heartbeat("that does not start a rebalance")
    ben.send_join("ben joins and waits for anna")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    describe_classic(transcript, "the group in PreparingRebalance", GROUP)
    anna.heartbeat("anna learns of the rebalance")
    anna.commit("anna commits before she rejoins", TOPIC, {0: 20})
    anna.sync("a sync during PreparingRebalance fails")
    anna.join("anna rejoins, which completes the join phase")
    ben.receive_join("ben has joined")
    describe_classic(transcript, "the group in CompletingRebalance", GROUP)
    anna.heartbeat("a heartbeat in CompletingRebalance")
    anna.commit("a commit in CompletingRebalance", TOPIC, {0: 30})
    ben.send_sync("ben syncs and waits for the leader")
    halves = {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    anna.sync("anna assigns", halves)
    ben.receive_sync("ben gets his assignment")
    ben.heartbeat("ben's heartbeat")
    ben.commit("ben commits", TOPIC, {2: 12})
    describe_classic(transcript, "the group is stable with two", GROUP)
    ben.join("ben rejoins with the same subscription: nothing changes")
    return ben


def third_member(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> ClassicMember:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), version=3)
    carla.send_join("carla joins with version 3, without a member id")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 3)
    ben.send_join("ben rejoins first")
    anna.heartbeat("anna learns of the rebalance")
    anna.send_join("anna rejoins, which completes the join phase")
    carla.receive_join("carla has joined")
    ben.receive_join("ben has joined")
    anna.receive_join("anna leads")
    carla.send_sync("carla syncs and waits for the leader")
    thirds = {
        anna.id: assignment({TOPIC: [0, 1]}),
        ben.id: assignment({TOPIC: [2]}),
        "a stranger": assignment({TOPIC: [3]}),
    }
    anna.sync("anna assigns to an unknown member and not to carla", thirds)
    carla.receive_sync("carla gets an empty assignment")
    ben.sync("ben syncs late and gets his assignment at once")
    describe_classic(transcript, "the group is stable with three", GROUP)
    return carla


def follower_leaves(
    transcript: Transcript, anna: ClassicMember, ben: ClassicMember, carla: ClassicMember
) -> None:
    ben.leave("ben leaves", reason="the sun shines")
    ben.heartbeat("ben is an unknown member")
    ben.leave("a second leave fails")
    anna.heartbeat("anna learns of the rebalance")
    carla.send_join("carla rejoins")
    anna.join("anna rejoins")
    carla.receive_join("carla has joined")
    old = anna.sync_fields({anna.id: b""}, generation_id=anna.generation - 1)
    anna.client.request("anna syncs with the previous generation", "SyncGroup", 5, old)
    anna.sync(
        "anna assigns",
        {anna.id: assignment({TOPIC: [0, 1]}), carla.id: assignment({TOPIC: [2, 3]})},
    )
    carla.sync("carla gets her assignment")


def leader_leaves(transcript: Transcript, anna: ClassicMember, carla: ClassicMember) -> None:
    anna.leave("the leader leaves", version=3)
    carla.heartbeat("carla learns of the rebalance")
    carla.join("carla rejoins and leads")
    carla.sync(
        "carla assigns all partitions to herself", {carla.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    describe_classic(transcript, "carla is the only member", GROUP)


def session_timeout(transcript: Transcript, carla: ClassicMember) -> None:
    dora = ClassicMember(
        transcript, "dora", GROUP, subscription(TOPIC), session_ms=SHORT_MS, version=2
    )
    dora.send_join("dora joins")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    carla.send_join("carla rejoins")
    dora.receive_join("dora has joined")
    carla.receive_join("carla leads")
    dora.send_sync("dora syncs and waits for the leader")
    halves = {carla.id: assignment({TOPIC: [0, 1]}), dora.id: assignment({TOPIC: [2, 3]})}
    carla.sync("carla assigns", halves)
    dora.receive_sync("dora gets her assignment and sends no heartbeats")
    dora.client.close()
    carla.heartbeat("carla's heartbeat before the session timeout")
    transcript.wait_until(lambda: carla.heartbeat_error() == REBALANCE_IN_PROGRESS)
    carla.join("carla rejoins after dora's session timeout")
    carla.sync(
        "carla assigns all partitions to herself", {carla.id: assignment({TOPIC: [0, 1, 2, 3]})}
    )
    dora.heartbeat("dora is an unknown member")


def all_leave(transcript: Transcript, carla: ClassicMember) -> None:
    carla.client.request(
        "the last member leaves with version 2",
        "LeaveGroup",
        2,
        {"group_id": GROUP, "member_id": carla.id},
    )
    describe_classic(transcript, "the group is empty", GROUP)
    carla.join("carla's member id is unknown")
    offsets = {"group_id": GROUP, "topics": None}
    transcript.request("the committed offsets remain", "OffsetFetch", 7, offsets)
