"""A cooperative rebalance (KIP-429): two rounds, and nobody stops reading what they keep.

The broker's part in it is small: it carries what the members own, and chooses the protocol.
"""

from transcripts.chapters.groups_requests import (
    Classic,
    coordinator_is_ready,
    described,
    share,
    until_state,
    wishes,
)
from transcripts.dialogue import Dialogue

GROUP = "cooperative"
TOPIC = "cooperative-topic"
STICKY = "cooperative-sticky"


def chapter(talk: Dialogue) -> None:
    talk.create(TOPIC, 4)
    coordinator_is_ready(talk, GROUP)
    anna = Classic(talk, "anna", GROUP, wishes(TOPIC, owned={}), protocols=(STICKY, "range"))
    ben = Classic(talk, "ben", GROUP, wishes(TOPIC, owned={}), protocols=("range", STICKY))
    alone(anna)
    first_round(talk, anna, ben)
    second_round(talk, anna, ben)
    protocol_changes(talk, anna, ben)


def alone(anna: Classic) -> None:
    anna.is_introduced()
    anna.joins("anna joins, and would rather cooperate")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]}, 1)})


def first_round(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    ben.protocols = (STICKY,)
    ben.is_introduced()
    ben.begins_to_join("ben joins, and can do nothing else")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    anna.beats("anna hears of it, and reads on")
    anna.commits("anna commits on the way", TOPIC, {0: 5, 3: 8})
    anna.metadata = wishes(TOPIC, owned={TOPIC: [0, 1, 2, 3]}, generation=1)
    anna.joins("anna comes back with all that she owns")
    ben.has_joined("ben is in")
    ben.begins_to_sync("ben waits for his assignment")
    anna.syncs(
        "anna gives up half, and ben gets nothing yet",
        {anna.id: share({TOPIC: [0, 1]}, 1), ben.id: share({}, 1)},
    )
    ben.has_synced("ben has nothing")
    described(talk, "the first round is over", GROUP)


def second_round(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    anna.metadata = wishes(TOPIC, owned={TOPIC: [0, 1]}, generation=2)
    anna.begins_to_join("anna has let go, and joins again at once")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    ben.beats("ben hears of it")
    ben.joins("ben comes back with nothing")
    anna.has_joined("anna is in")
    ben.begins_to_sync("ben waits for his assignment")
    halves = {anna.id: share({TOPIC: [0, 1]}, 1), ben.id: share({TOPIC: [2, 3]}, 1)}
    anna.syncs("anna gives ben what is free", halves)
    ben.has_synced("ben has his half")
    described(talk, "the second round is over", GROUP)
    anna.beats("all is well with anna")
    ben.beats("all is well with ben")


def protocol_changes(talk: Dialogue, anna: Classic, ben: Classic) -> None:
    carla = Classic(talk, "carla", GROUP, wishes(TOPIC), protocols=("range",))
    carla.joins("carla knows range alone, which ben cannot do: she is refused")
    ben.protocols = ("range", STICKY)
    ben.metadata = wishes(TOPIC, owned={TOPIC: [2, 3]}, generation=3)
    ben.begins_to_join("ben would now rather do range")
    until_state(talk, GROUP, "PreparingRebalance", 2)
    anna.protocols = ("range", STICKY)
    anna.joins("anna too, and so it is range")
    ben.has_joined("ben is in")
    carla.joins("carla is given an id, while the group completes")
    carla.begins_to_join("carla joins: the round begins anew")
    until_state(talk, GROUP, "PreparingRebalance", 3)
    ben.syncs("ben asks for an assignment in vain")
    ben.begins_to_join("ben comes back")
    anna.joins("anna comes back")
    ben.has_joined("ben is in")
    carla.has_joined("carla is in")
    carla.syncs("carla expects another protocol", protocol_name=STICKY)
    carla.syncs("carla expects another type", protocol_type="connect")
    carla.begins_to_sync("carla expects the right one")
    all_of_it = {anna.id: share({TOPIC: [0]}), ben.id: b"", carla.id: share({TOPIC: [1, 2, 3]})}
    anna.syncs("anna assigns", all_of_it)
    carla.has_synced("carla has hers")
    described(talk, "three members with range", GROUP)
