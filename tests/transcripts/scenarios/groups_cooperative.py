"""A cooperative rebalance (KIP-429): two rebalances, and kept partitions are not revoked.

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
    first_member(anna)
    first_rebalance(transcript, anna, ben)
    second_rebalance(transcript, anna, ben)
    protocol_changes(transcript, anna, ben)


def first_member(anna: ClassicMember) -> None:
    anna.obtain_member_id()
    anna.join("anna joins and prefers cooperative-sticky")
    anna.sync(
        "anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)}
    )


def first_rebalance(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    ben.protocols = (STICKY,)
    ben.obtain_member_id()
    ben.send_join("ben joins with cooperative-sticky only")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.heartbeat("anna learns of the rebalance")
    anna.commit("anna commits during the rebalance", TOPIC, {0: 5, 3: 8})
    anna.metadata = subscription(TOPIC, owned={TOPIC: [0, 1, 2, 3]}, generation=1)
    anna.join("anna rejoins with her owned partitions")
    ben.receive_join("ben has joined")
    ben.send_sync("ben syncs and waits for the leader")
    anna.sync(
        "anna revokes half, ben gets nothing yet",
        {anna.id: assignment({TOPIC: [0, 1]}, 1), ben.id: assignment({}, 1)},
    )
    ben.receive_sync("ben gets an empty assignment")
    describe_classic(transcript, "after the first rebalance", GROUP)


def second_rebalance(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    anna.metadata = subscription(TOPIC, owned={TOPIC: [0, 1]}, generation=2)
    anna.send_join("anna has revoked and rejoins at once")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    ben.heartbeat("ben learns of the rebalance")
    ben.join("ben rejoins without partitions")
    anna.receive_join("anna has joined")
    ben.send_sync("ben syncs and waits for the leader")
    halves = {anna.id: assignment({TOPIC: [0, 1]}, 1), ben.id: assignment({TOPIC: [2, 3]}, 1)}
    anna.sync("anna assigns the free partitions to ben", halves)
    ben.receive_sync("ben gets his assignment")
    describe_classic(transcript, "after the second rebalance", GROUP)
    anna.heartbeat("anna's heartbeat succeeds")
    ben.heartbeat("ben's heartbeat succeeds")


def protocol_changes(transcript: Transcript, anna: ClassicMember, ben: ClassicMember) -> None:
    carla = ClassicMember(transcript, "carla", GROUP, subscription(TOPIC), protocols=("range",))
    carla.join("carla supports range only, ben does not: inconsistent protocols")
    ben.protocols = ("range", STICKY)
    ben.metadata = subscription(TOPIC, owned={TOPIC: [2, 3]}, generation=3)
    ben.send_join("ben rejoins and prefers range")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 2)
    anna.protocols = ("range", STICKY)
    anna.join("anna prefers range too, which is chosen")
    ben.receive_join("ben has joined")
    carla.join("carla gets a member id in CompletingRebalance")
    carla.send_join("carla joins: a new rebalance starts")
    wait_for_state(transcript, GROUP, "PreparingRebalance", 3)
    ben.sync("ben's sync returns REBALANCE_IN_PROGRESS")
    ben.send_join("ben rejoins")
    anna.join("anna rejoins")
    ben.receive_join("ben has joined")
    carla.receive_join("carla has joined")
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
