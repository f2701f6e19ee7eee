"""Groups and their limits: how many may be in one, and how long it waits for each of them."""

from transcripts.chapters.groups_requests import (
    Classic,
    Modern,
    coordinator_is_ready,
    described,
    settle,
    share,
    shown,
    until_state,
    wishes,
)
from transcripts.dialogue import Dialogue

TOPIC = "limited-topic"
OLD, NEW, LATE, SLOW = "limits-old", "limits-new", "limits-late", "limits-slow"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "10",
    "group.max.session.timeout.ms": "100000",
    "group.max.size": "2",
    "group.consumer.max.size": "2",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "offset.metadata.max.bytes": "10",
}
SHORT_MS = 700
REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID = 27, 25


def chapter(talk: Dialogue) -> None:
    topic = talk.create(TOPIC, 4)
    coordinator_is_ready(talk, OLD, NEW, LATE, SLOW)
    anna, ben = first_round(talk)
    too_many(talk, anna, ben)
    one_is_late(talk)
    modern_is_full(talk)
    modern_is_slow(talk, topic)


def first_round(talk: Dialogue) -> tuple[Classic, Classic]:
    anna = Classic(talk, "anna", OLD, wishes(TOPIC))
    ben = Classic(talk, "ben", OLD, wishes(TOPIC))
    anna.joins("anna is given an id")
    ben.joins("ben is given an id")
    anna.begins_to_join("anna joins, and the group waits a moment for others")
    until_state(talk, OLD, "PreparingRebalance", 1)
    ben.begins_to_join("ben joins in that moment")
    anna.has_joined("anna leads")
    ben.has_joined("ben is in, in the same generation")
    anna.syncs("anna assigns", {anna.id: share({TOPIC: [0, 1]}), ben.id: share({TOPIC: [2, 3]})})
    ben.syncs("ben has his half")
    words = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 11}]
    words_of = [{"name": TOPIC, "partitions": words}]
    anna.commits("words that are too long here", TOPIC, {}, topics=words_of)
    return anna, ben


def too_many(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    carla = Classic(talk, "carla", OLD, wishes(TOPIC))
    carla.joins("carla is one too many")
    carla.version = 3
    carla.joins("in the old way too")
    carla.instance, carla.version = "desk-c", 9
    carla.joins("and with a desk")
    carla.joins("and with an id", member_id="carla")
    carla.instance = None
    carla.joins("a session longer than is allowed here", session_timeout_ms=100_001)
    anna.beats("anna notices nothing")
    ben.leaves("ben leaves")
    carla.joins("now carla is given an id")
    carla.begins_to_join("carla joins")
    until_state(talk, OLD, "PreparingRebalance", 2)
    anna.joins("anna comes back")
    carla.has_joined("carla is in")
    described(talk, "two again", OLD)


def one_is_late(talk: Dialogue) -> None:
    anna = Classic(talk, "anna, again", LATE, wishes(TOPIC), rebalance_ms=SHORT_MS)
    ben = Classic(talk, "ben, again", LATE, wishes(TOPIC), rebalance_ms=SHORT_MS)
    for each in (anna, ben):
        each.is_introduced()
    anna.begins_to_join("anna joins")
    until_state(talk, LATE, "PreparingRebalance", 1)
    ben.begins_to_join("ben joins")
    anna.has_joined("anna leads")
    ben.has_joined("ben is in, and is not heard again")
    anna.syncs("anna assigns", {anna.id: share({TOPIC: [0, 1]}), ben.id: share({TOPIC: [2, 3]})})
    talk.wait(lambda: anna.beat_code() == REBALANCE_IN_PROGRESS)
    ben.beats("ben did not ask for his share in time, and is out")
    anna.joins("anna comes back")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]})})
    carla = Classic(talk, "carla, again", LATE, wishes(TOPIC), rebalance_ms=SHORT_MS)
    carla.is_introduced()
    carla.begins_to_join("carla joins, and anna does not come back")
    carla.has_joined("carla leads")
    anna.beats("anna is out")
    described(talk, "carla is alone", LATE)


def modern_is_full(talk: Dialogue) -> None:
    anna = Modern(talk, "anna", NEW, [TOPIC])
    ben = Modern(talk, "ben", NEW, [TOPIC])
    carla = Modern(talk, "carla", NEW, [TOPIC])
    anna.joins("anna joins in the new way")
    ben.joins("ben joins in the new way")
    settle(talk, 4, anna, ben)
    carla.joins("carla is one too many")
    old = Classic(talk, "dora", NEW, wishes(TOPIC))
    old.joins("and so is dora, in the old way")
    settle(talk, 4, anna, ben)
    shown(talk, "the two share", NEW)
    settle(talk, 4, anna)
    shown(talk, "ben was silent for too long", NEW)
    ben.beats("ben is not known any more")
    ben.commits("ben cannot commit", TOPIC, {2: 1})
    anna.leaves("anna leaves")


def modern_is_slow(talk: Dialogue, topic: bytes) -> None:
    anna = Modern(talk, "anna", SLOW, [TOPIC], rebalance_ms=SHORT_MS)
    anna.joins("anna joins")
    anna.takes("anna has everything")
    ben = Modern(talk, "ben", SLOW, [TOPIC])
    ben.joins("ben joins")
    anna.beats("anna is told to let go, and does not")
    talk.wait(lambda: anna.beats_quietly().error_code == UNKNOWN_MEMBER_ID)
    anna.beats("anna took too long, and is out")
    settle(talk, 4, ben)
    shown(talk, "ben has everything", SLOW)
