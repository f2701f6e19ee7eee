"""An eager rebalance: members come and go, and each time all of them give up what they had."""

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
    anna = alone(transcript)
    ben = second_comes(transcript, anna)
    carla = third_comes(transcript, anna, ben)
    one_leaves(transcript, anna, ben, carla)
    leader_leaves(transcript, anna, carla)
    one_dies(transcript, carla)
    all_leave(transcript, carla)


def alone(transcript: Transcript) -> ClassicMember:
    describe_classic(transcript, "nobody knows the group yet", GROUP)
    anna = ClassicMember(
        transcript, "anna", GROUP, subscription(TOPIC), protocols=("range", "roundrobin")
    )
    anna.join("anna asks to join and is given an id (KIP-394)")
    wait_for_state(transcript, GROUP, "Empty", 0)
    describe_classic(transcript, "the group is there, and empty", GROUP)
    anna.join("anna joins with it: she is alone, and leads")
    describe_classic(transcript, "the group waits for its leader's assignment", GROUP)
    anna.heartbeat("a heartbeat before the assignment")
    anna.join("anna joins once more, as if the answer had been lost")
    everything = {anna.id: assignment({TOPIC: [0, 1, 2, 3]})}
    anna.sync("anna gives herself everything", everything)
    anna.sync("anna asks for it again")
    anna.heartbeat("a heartbeat")
    describe_classic(transcript, "the group is stable", GROUP)
    anna.commit("anna commits", TOPIC, {0: 10, 1: 11})
    return anna


def second_comes(transcript: Transcript, anna: ClassicMember) -> ClassicMember:
    ben = ClassicMember(transcript, "ben", GROUP, subscription(TOPIC))
    ben.join("ben asks to join")
    anna.heartbeat("that alone is no rebalance")
    ben.send_join("ben joins, and waits for anna")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    describe_classic(transcript, "the group prepares", GROUP)
    anna.heartbeat("anna hears of it")
    anna.commit("anna commits what she read", TOPIC, {0: 20})
    anna.sync("it is too late to ask for the assignment")
    anna.join("anna joins again, which completes the round")
    ben.receive_join("ben is in")
    describe_classic(transcript, "all have joined, and the leader has to assign", GROUP)
    anna.heartbeat("a heartbeat while the group completes")
    anna.commit("nobody can commit now", TOPIC, {0: 30})
    ben.send_sync("ben asks for his assignment, and waits for the leader")
    halves = {anna.id: assignment({TOPIC: [0, 1]}), ben.id: assignment({TOPIC: [2, 3]})}
    anna.sync("anna assigns", halves)
    ben.receive_sync("ben gets his half")
    ben.heartbeat("ben's heartbeat")
    ben.commit("ben commits", TOPIC, {2: 12})
    describe_classic(transcript, "the group is stable with two", GROUP)
    ben.join("ben joins again with the same wishes: nothing changes")
    return ben


def third_comes(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> ClassicMember:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), version=3)
    carla.send_join("carla joins as old clients do, without an id")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 3)
    ben.send_join("ben comes back first")
    anna.heartbeat("anna hears of it")
    anna.send_join("anna comes back, which completes the round")
    carla.receive_join("carla is in")
    ben.receive_join("ben is in")
    anna.receive_join("anna leads")
    carla.send_sync("carla waits for her assignment")
    thirds = {
        anna.id: assignment({TOPIC: [0, 1]}),
        ben.id: assignment({TOPIC: [2]}),
        "a stranger": assignment({TOPIC: [3]}),
    }
    anna.sync("anna forgets carla and thinks of a stranger", thirds)
    carla.receive_sync("carla gets nothing")
    ben.sync("ben comes late and is not made to wait")
    describe_classic(transcript, "the group is stable with three", GROUP)
    return carla


def one_leaves(
    transcript: Transcript, anna: ClassicMember, ben: ClassicMember, carla: ClassicMember
) -> None:
    ben.leave("ben leaves", reason="the sun shines")
    ben.heartbeat("ben is not known any more")
    ben.leave("he cannot leave twice")
    anna.heartbeat("anna hears of it")
    carla.send_join("carla comes back")
    anna.join("anna comes back")
    carla.receive_join("carla is in")
    old = anna.sync_fields({anna.id: b""}, generation_id=anna.generation - 1)
    anna.client.request("anna assigns for the last generation", "SyncGroup", 5, old)
    anna.sync(
        "anna assigns",
        {anna.id: assignment({TOPIC: [0, 1]}), carla.id: assignment({TOPIC: [2, 3]})},
    )
    carla.sync("carla gets her half")


def leader_leaves(transcript: Transcript, anna: ClassicMember, carla: ClassicMember) -> None:
    anna.leave("the leader leaves", version=3)
    carla.heartbeat("carla hears of it")
    carla.join("carla comes back, and leads")
    carla.sync("carla takes everything", {carla.id: assignment({TOPIC: [0, 1, 2, 3]})})
    describe_classic(transcript, "carla is alone", GROUP)


def one_dies(transcript: Transcript, carla: ClassicMember) -> None:
    dora = ClassicMember(
        transcript, "dora", GROUP, subscription(TOPIC), session_ms=SHORT_MS, version=2
    )
    dora.send_join("dora joins")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    carla.send_join("carla comes back")
    dora.receive_join("dora is in")
    carla.receive_join("carla leads")
    dora.send_sync("dora waits for her assignment")
    halves = {carla.id: assignment({TOPIC: [0, 1]}), dora.id: assignment({TOPIC: [2, 3]})}
    carla.sync("carla assigns", halves)
    dora.receive_sync("dora gets her half, and is never heard again")
    dora.client.close()
    carla.heartbeat("so far nobody minds")
    transcript.wait_until(lambda: carla.heartbeat_error() == REBALANCE_IN_PROGRESS)
    carla.join("dora's session is over: carla comes back")
    carla.sync("carla takes everything", {carla.id: assignment({TOPIC: [0, 1, 2, 3]})})
    dora.heartbeat("dora is not known any more")


def all_leave(transcript: Transcript, carla: ClassicMember) -> None:
    carla.client.request(
        "the last one leaves, as old clients do",
        "LeaveGroup",
        2,
        {"group_id": GROUP, "member_id": carla.id},
    )
    describe_classic(transcript, "the group is empty", GROUP)
    carla.join("carla's old id is worth nothing")
    offsets = {"group_id": GROUP, "topics": None}
    transcript.request("the offsets are still there", "OffsetFetch", 7, offsets)
