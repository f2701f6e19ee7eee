"""A cooperative rebalance (KIP-429): two rounds, and nobody stops reading what they keep.

The broker's part in it is small: it carries what the members own, and chooses the protocol.
"""

from transcripts.scenarios.group_members import (
    ClassicMember,
    assignment,
    describe_classic,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.transcript import Transcript

GROUP = "cooperative"
TOPIC = "cooperative-topic"
STICKY = "cooperative-sticky"


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, GROUP)
    anna = ClassicMember(
        transcript, "anna", GROUP, subscription(TOPIC, owned={}), protocols=(STICKY, "range")
    )
    ben = ClassicMember(
        transcript, "ben", GROUP, subscription(TOPIC, owned={}), protocols=("range", STICKY)
    )
    alone(anna)
    first_round(transcript, anna, ben)
    second_round(transcript, anna, ben)
    protocol_changes(transcript, anna, ben)


def alone(anna: ClassicMember) -> None:
    anna.obtain_member_id()
    anna.join("anna joins, and would rather cooperate")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)})


def first_round(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    ben.protocols = (STICKY,)
    ben.obtain_member_id()
    ben.send_join("ben joins, and can do nothing else")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.heartbeat("anna hears of it, and reads on")
    anna.commit("anna commits on the way", TOPIC, {0: 5, 3: 8})
    anna.metadata = subscription(TOPIC, owned={TOPIC: [0, 1, 2, 3]}, generation=1)
    anna.join("anna comes back with all that she owns")
    ben.receive_join("ben is in")
    ben.send_sync("ben waits for his assignment")
    anna.sync(
        "anna gives up half, and ben gets nothing yet",
        {anna.id: assignment({TOPIC: [0, 1]}, 1), ben.id: assignment({}, 1)},
    )
    ben.receive_sync("ben has nothing")
    describe_classic(transcript, "the first round is over", GROUP)


def second_round(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.metadata = subscription(TOPIC, owned={TOPIC: [0, 1]}, generation=2)
    anna.send_join("anna has let go, and joins again at once")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    ben.heartbeat("ben hears of it")
    ben.join("ben comes back with nothing")
    anna.receive_join("anna is in")
    ben.send_sync("ben waits for his assignment")
    halves = {anna.id: assignment({TOPIC: [0, 1]}, 1), ben.id: assignment({TOPIC: [2, 3]}, 1)}
    anna.sync("anna gives ben what is free", halves)
    ben.receive_sync("ben has his half")
    describe_classic(transcript, "the second round is over", GROUP)
    anna.heartbeat("all is well with anna")
    ben.heartbeat("all is well with ben")


def protocol_changes(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), protocols=("range",))
    carla.join("carla knows range alone, which ben cannot do: she is refused")
    ben.protocols = ("range", STICKY)
    ben.metadata = subscription(TOPIC, owned={TOPIC: [2, 3]}, generation=3)
    ben.send_join("ben would now rather do range")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.protocols = ("range", STICKY)
    anna.join("anna too, and so it is range")
    ben.receive_join("ben is in")
    carla.join("carla is given an id, while the group completes")
    carla.send_join("carla joins: the round begins anew")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 3)
    ben.sync("ben asks for an assignment in vain")
    ben.send_join("ben comes back")
    anna.join("anna comes back")
    ben.receive_join("ben is in")
    carla.receive_join("carla is in")
    carla.sync("carla expects another protocol", protocol_name=STICKY)
    carla.sync("carla expects another type", protocol_type="connect")
    carla.send_sync("carla expects the right one")
    all_of_it = {
        anna.id: assignment({TOPIC: [0]}),
        ben.id: b"",
        carla.id: assignment({TOPIC: [1, 2, 3]}),
    }
    anna.sync("anna assigns", all_of_it)
    carla.receive_sync("carla has hers")
    describe_classic(transcript, "three members with range", GROUP)
