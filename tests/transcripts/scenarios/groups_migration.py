"""A group changes its protocol while members roll: to the new one, to the old one, or not."""

from transcripts.scenarios.group_members import (
    ClassicMember,
    ConsumerMember,
    assignment,
    describe_classic,
    describe_consumer,
    settle,
    subscription,
    wait_for_coordinator,
    wait_for_state,
)
from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UP, DOWN, STATIC, EMPTY = "rolling-up", "rolling-down", "rolling-static", "rolling-empty"
TOPIC = "rolling-topic"
IDLE = "Kafka gives her nothing until something else changes; Sawlog assigns when a group crosses"
TWICE = "Kafka makes up a generation and has her join again; Sawlog answers when the round is over"


def run(transcript: Transcript) -> None:
    topic = transcript.create_topic(TOPIC, 4)
    wait_for_coordinator(transcript, UP, DOWN, STATIC, EMPTY)
    up(transcript)
    down(transcript, topic)
    static(transcript)
    empty(transcript)
    refused(transcript)
    garbage(transcript)
    early(transcript)
    other_wishes(transcript)


def both(transcript: Transcript, group: str) -> None:
    describe_classic(transcript, "as the old tools see it", group, version=6)
    describe_consumer(transcript, "as the new tools see it", group)


def up(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", UP, subscription(TOPIC, owned={}))
    anna.obtain_member_id()
    anna.join("anna joins in the old way")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)})
    anna.commit("anna commits", TOPIC, {0: 1})
    ben = ConsumerMember(transcript, "ben", UP, [TOPIC])
    ben.join("ben joins in the new way, and the group is a new one")
    both(transcript, UP)
    anna.heartbeat("anna hears of it")
    anna.commit("anna commits what she read", TOPIC, {0: 2})
    anna.sync("she cannot ask for an assignment now")
    anna.join("anna comes back, with nothing to keep her from it")
    anna.sync("she learns what she has")
    settle(transcript, 2, ben)
    ben.commit("ben commits", TOPIC, {2: 3})
    anna.heartbeat("anna's heartbeat")
    both(transcript, UP)
    old = anna.sync_fields(generation_id=anna.generation - 1)
    anna.client.request("a sync of the generation before", "SyncGroup", 5, old)
    anna.sync("a sync with another protocol", protocol_name="roundrobin")
    anna.heartbeat("a heartbeat of the generation before", generation_id=anna.generation - 1)
    anna.commit("anna commits", TOPIC, {0: 3})
    old_commit = {"generation_id_or_member_epoch": anna.generation - 1}
    anna.commit("a commit of the generation before", TOPIC, {0: 99}, **old_commit)
    carla = ClassicMember(transcript, "carla", UP, subscription(TOPIC, owned={}))
    carla.join("carla comes in the old way, and is given an id")
    carla.leave("she leaves again")
    anna.leave("anna leaves")
    settle(transcript, 4, ben)
    both(transcript, UP)
    ben.leave("ben leaves")
    both(transcript, UP)


def down(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", DOWN, [TOPIC])
    anna.join("anna joins in the new way")
    anna.confirm_assignment("anna has everything")
    ben = ClassicMember(transcript, "ben", DOWN, subscription(TOPIC, owned={}))
    ben.join("ben comes in the old way, and is given an id")
    ben.join("ben joins: nothing is free yet")
    ben.sync("and so he has nothing")
    anna.heartbeat("anna hears what she may keep")
    anna.confirm_assignment("anna has let go of the rest")
    ben.heartbeat("ben hears that there is something")
    ben.join("ben comes back")
    ben.sync("ben has his half")
    ben.commit("ben commits", TOPIC, {2: 3})
    both(transcript, DOWN)
    anna.leave("anna leaves, and only old ones are left")
    both(transcript, DOWN)
    ben.heartbeat("ben hears of it")
    ben.join("ben comes back, and leads")
    ben.sync("ben takes everything", {ben.id: assignment({TOPIC: [0, 1, 2, 3]}, 1)})
    both(transcript, DOWN)
    transcript.request(
        "the offsets are there", "OffsetFetch", 7, {"group_id": DOWN, "topics": None}
    )


def static(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", STATIC, subscription(TOPIC), instance="desk-a")
    anna.join("anna joins in the old way, under the name of her desk")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})})
    again = ConsumerMember(transcript, "anna, anew", STATIC, [TOPIC], instance="desk-a")
    again.join("anna restarts in the new way: the group is a new one")
    anna.heartbeat("the old one is fenced")
    both(transcript, STATIC)
    again.confirm_assignment("anna has taken everything")
    again.leave("anna goes away for a while", -2)
    back = ClassicMember(
        transcript, "anna, as of old", STATIC, subscription(TOPIC), instance="desk-a"
    )
    back.join("anna restarts in the old way: the group is an old one")
    back.sync("she has what she had")
    both(transcript, STATIC)
    again.heartbeat("the new one is gone")


def empty(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", EMPTY, subscription(TOPIC))
    anna.obtain_member_id()
    anna.join("anna joins in the old way")
    anna.sync("anna takes everything", {anna.id: assignment({TOPIC: [0, 1, 2, 3]})})
    anna.commit("anna commits", TOPIC, {0: 7})
    anna.leave("anna leaves")
    both(transcript, EMPTY)
    ben = ConsumerMember(transcript, "ben", EMPTY, [TOPIC])
    ben.join("ben joins in the new way")
    both(transcript, EMPTY)
    ben.leave("ben leaves")
    carla = ClassicMember(transcript, "carla", EMPTY, subscription(TOPIC))
    carla.join("carla comes in the old way, and is given an id")
    carla.join("carla joins")
    both(transcript, EMPTY)
    transcript.request(
        "the offsets are there", "OffsetFetch", 7, {"group_id": EMPTY, "topics": None}
    )


def refused(transcript: Transcript) -> None:
    group = "rolling-connect"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna", group, b"a worker's wishes")
    anna.join("a worker is given an id", protocol_type="connect")
    anna.join("the worker joins", protocol_type="connect")
    everything = {anna.id: b"all the work"}
    anna.sync("the worker takes it all", everything, protocol_type="connect")
    both(transcript, group)
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    ben.join("ben does not fit in")
    anna.heartbeat("the worker does not mind")
    group = "rolling-other"
    wait_for_coordinator(transcript, group)
    carla = ConsumerMember(transcript, "carla", group, [TOPIC])
    carla.join("carla joins in the new way")
    dora = ClassicMember(transcript, "dora", group, b"a worker's wishes")
    dora.join("a worker does not fit in", protocol_type="connect")
    dora.join("nor does somebody without protocols", protocols=[])
    dora.join("nor with an id", protocol_type="connect", member_id="dora")
    dora.version = 3
    dora.join("garbage for wishes", protocols=[{"name": "range", "metadata": b"x"}])


def garbage(transcript: Transcript) -> None:
    group = "rolling-garbage"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna", group, b"x", version=3)
    anna.join("anna joins with garbage for wishes")
    anna.sync("and gives herself garbage", {anna.id: b"more garbage"})
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    unread = Differs(KAFKA_FAILS, {"error_code": "GROUP_ID_NOT_FOUND"})
    ben.client.request(
        "ben would have to read it",
        "ConsumerGroupHeartbeat",
        1,
        ben.join_fields(),
        differs=unread,
    )
    anna.heartbeat("anna does not mind")
    both(transcript, group)
    wait_for_state(transcript, group, "Stable", 1)
    group = "rolling-user-data"
    wait_for_coordinator(transcript, group)
    carla = ClassicMember(transcript, "carla", group, subscription(TOPIC), version=3)
    carla.join("carla joins")
    with_data = assignment({TOPIC: [0, 1]})[:-4] + (3).to_bytes(4, "big") + b"own"
    carla.sync("and gives herself something of her own", {carla.id: with_data})
    ben = ConsumerMember(transcript, "ben", group, [TOPIC])
    ben.join("ben would lose it")
    both(transcript, group)


def early(transcript: Transcript) -> None:
    group = "rolling-early"
    wait_for_coordinator(transcript, group)
    anna = ClassicMember(transcript, "anna, early", group, subscription(TOPIC), instance="desk-a")
    anna.join("anna joins in the old way, under the name of her desk, and assigns nothing")
    again = ConsumerMember(transcript, "anna, early and anew", group, [TOPIC], instance="desk-a")
    everything = {
        "topic_partitions": [{"topic_id": f"<id of {TOPIC}>", "partitions": [0, 1, 2, 3]}]
    }
    at_once = Differs(IDLE, {"member_epoch": 2, "assignment": everything})
    fields = again.join_fields()
    answer = again.client.request(
        "anna restarts in the new way", "ConsumerGroupHeartbeat", 1, fields, differs=at_once
    )
    fields = again.heartbeat_fields(member_epoch=answer.member_epoch)
    later = Differs(IDLE, {"member_epoch": 2})
    again.client.request(
        "and a heartbeat later", "ConsumerGroupHeartbeat", 1, fields, differs=later
    )


def other_wishes(transcript: Transcript) -> None:
    group = "rolling-back"
    wait_for_coordinator(transcript, group)
    anna = ConsumerMember(transcript, "anna, at first", group, [TOPIC], instance="desk-a")
    anna.join("anna joins in the new way")
    anna.confirm_assignment("anna has taken everything")
    anna.leave("anna goes away for a while", -2)
    back = ClassicMember(
        transcript, "anna, in the end", group, subscription(TOPIC, "rolling-2"), instance="desk-a"
    )
    name = f"<UUID of {back.name}>"
    herself = {
        "member_id": name,
        "group_instance_id": "desk-a",
        "metadata": {"version": 0, "topics": sorted([TOPIC, "rolling-2"])},
    }
    leads = {"generation_id": 3, "leader": name, "members": [herself]}
    back.client.request(
        "anna restarts in the old way, with other wishes",
        "JoinGroup",
        9,
        back.join_fields(),
        differs=Differs(TWICE, leads),
    )
