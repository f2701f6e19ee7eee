"""An eager rebalance: members come and go, and each time all of them give up what they had."""

from transcripts.chapters.groups_requests import (
    Classic,
    coordinator_is_ready,
    described,
    share,
    until_state,
    wishes,
)
from transcripts.dialogue import Dialogue

GROUP = "eager"
TOPIC = "eager-topic"
SHORT_MS = 2_000
REBALANCE_IN_PROGRESS = 27


def chapter(talk: Dialogue) -> None:
    talk.create(TOPIC, 4)
    coordinator_is_ready(talk, GROUP)
    anna = alone(talk)
    ben = second_comes(talk, anna)
    carla = third_comes(talk, anna, ben)
    one_leaves(talk, anna, ben, carla)
    leader_leaves(talk, anna, carla)
    one_dies(talk, carla)
    all_leave(talk, carla)


def alone(talk: Dialogue) -> Classic:
    described(talk, "nobody knows the group yet", GROUP)
    anna = Classic(talk, "anna", GROUP, wishes(TOPIC), protocols=("range", "roundrobin"))
    anna.joins("anna asks to join and is given an id (KIP-394)")
    until_state(talk, GROUP, "Empty", 0)
    described(talk, "the group is there, and empty", GROUP)
    anna.joins("anna joins with it: she is alone, and leads")
    described(talk, "the group waits for its leader's assignment", GROUP)
    anna.beats("a heartbeat before the assignment")
    anna.joins("anna joins once more, as if the answer had been lost")
    everything = {anna.id: share({TOPIC: [0, 1, 2, 3]})}
    anna.syncs("anna gives herself everything", everything)
    anna.syncs("anna asks for it again")
    anna.beats("a heartbeat")
    described(talk, "the group is stable", GROUP)
    anna.commits("anna commits", TOPIC, {0: 10, 1: 11})
    return anna


def second_comes(talk: Dialogue, anna: Classic) -> Classic:
    ben = Classic(talk, "ben", GROUP, wishes(TOPIC))
    ben.joins("ben asks to join")
    anna.beats("that alone is no rebalance")
    ben.begins_to_join("ben joins, and waits for anna")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    described(talk, "the group prepares", GROUP)
    anna.beats("anna hears of it")
    anna.commits("anna commits what she read", TOPIC, {0: 20})
    anna.syncs("it is too late to ask for the assignment")
    anna.joins("anna joins again, which completes the round")
    ben.has_joined("ben is in")
    described(talk, "all have joined, and the leader has to assign", GROUP)
    anna.beats("a heartbeat while the group completes")
    anna.commits("nobody can commit now", TOPIC, {0: 30})
    ben.begins_to_sync("ben asks for his assignment, and waits for the leader")
    halves = {anna.id: share({TOPIC: [0, 1]}), ben.id: share({TOPIC: [2, 3]})}
    anna.syncs("anna assigns", halves)
    ben.has_synced("ben gets his half")
    ben.beats("ben's heartbeat")
    ben.commits("ben commits", TOPIC, {2: 12})
    described(talk, "the group is stable with two", GROUP)
    ben.joins("ben joins again with the same wishes: nothing changes")
    return ben


def third_comes(talk: Dialogue, anna: Classic, ben: Classic) -> Classic:
    carla = Classic(talk, "carla", GROUP, wishes(TOPIC), version=3)
    carla.begins_to_join("carla joins as old clients do, without an id")
    until_state(talk, GROUP, "PreparingRebalance", 3)
    ben.begins_to_join("ben comes back first")
    anna.beats("anna hears of it")
    anna.begins_to_join("anna comes back, which completes the round")
    carla.has_joined("carla is in")
    ben.has_joined("ben is in")
    anna.has_joined("anna leads")
    carla.begins_to_sync("carla waits for her assignment")
    thirds = {
        anna.id: share({TOPIC: [0, 1]}),
        ben.id: share({TOPIC: [2]}),
        "a stranger": share({TOPIC: [3]}),
    }
    anna.syncs("anna forgets carla and thinks of a stranger", thirds)
    carla.has_synced("carla gets nothing")
    ben.syncs("ben comes late and is not made to wait")
    described(talk, "the group is stable with three", GROUP)
    return carla


def one_leaves(talk: Dialogue, anna: Classic, ben: Classic, carla: Classic) -> None:
    ben.leaves("ben leaves", reason="the sun shines")
    ben.beats("ben is not known any more")
    ben.leaves("he cannot leave twice")
    anna.beats("anna hears of it")
    carla.begins_to_join("carla comes back")
    anna.joins("anna comes back")
    carla.has_joined("carla is in")
    old = anna.syncing({anna.id: b""}, generation_id=anna.generation - 1)
    anna.voice.ask("anna assigns for the last generation", "SyncGroup", 5, old)
    anna.syncs(
        "anna assigns",
        {anna.id: share({TOPIC: [0, 1]}), carla.id: share({TOPIC: [2, 3]})},
    )
    carla.syncs("carla gets her half")


def leader_leaves(talk: Dialogue, anna: Classic, carla: Classic) -> None:
    anna.leaves("the leader leaves", version=3)
    carla.beats("carla hears of it")
    carla.joins("carla comes back, and leads")
    carla.syncs("carla takes everything", {carla.id: share({TOPIC: [0, 1, 2, 3]})})
    described(talk, "carla is alone", GROUP)


def one_dies(talk: Dialogue, carla: Classic) -> None:
    dora = Classic(talk, "dora", GROUP, wishes(TOPIC), session_ms=SHORT_MS, version=2)
    dora.begins_to_join("dora joins")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    carla.begins_to_join("carla comes back")
    dora.has_joined("dora is in")
    carla.has_joined("carla leads")
    dora.begins_to_sync("dora waits for her assignment")
    halves = {carla.id: share({TOPIC: [0, 1]}), dora.id: share({TOPIC: [2, 3]})}
    carla.syncs("carla assigns", halves)
    dora.has_synced("dora gets her half, and is never heard again")
    dora.voice.hang_up()
    carla.beats("so far nobody minds")
    talk.wait(lambda: carla.beat_code() == REBALANCE_IN_PROGRESS)
    carla.joins("dora's session is over: carla comes back")
    carla.syncs("carla takes everything", {carla.id: share({TOPIC: [0, 1, 2, 3]})})
    dora.beats("dora is not known any more")


def all_leave(talk: Dialogue, carla: Classic) -> None:
    carla.voice.ask(
        "the last one leaves, as old clients do",
        "LeaveGroup",
        2,
        {"group_id": GROUP, "member_id": carla.id},
    )
    described(talk, "the group is empty", GROUP)
    carla.joins("carla's old id is worth nothing")
    offsets = {"group_id": GROUP, "topics": None}
    talk.ask("the offsets are still there", "OffsetFetch", 7, offsets)
