"""A group changes its protocol while members roll: to the new one, to the old one, or not."""

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
from transcripts.dialogue import KAFKA_FAILS, Dialogue, Differs

UP, DOWN, STATIC, EMPTY = "rolling-up", "rolling-down", "rolling-static", "rolling-empty"
TOPIC = "rolling-topic"
IDLE = "Kafka gives her nothing until something else changes; Sawlog assigns when a group crosses"
TWICE = "Kafka makes up a generation and has her join again; Sawlog answers when the round is over"


def chapter(talk: Dialogue) -> None:
    topic = talk.create(TOPIC, 4)
    coordinator_is_ready(talk, UP, DOWN, STATIC, EMPTY)
    up(talk)
    down(talk, topic)
    static(talk)
    empty(talk)
    refused(talk)
    garbage(talk)
    early(talk)
    other_wishes(talk)


def both(talk: Dialogue, group: str) -> None:
    described(talk, "as the old tools see it", group, version=6)
    shown(talk, "as the new tools see it", group)


def up(talk: Dialogue) -> None:
    anna = Classic(talk, "anna", UP, wishes(TOPIC, owned={}))
    anna.is_introduced()
    anna.joins("anna joins in the old way")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]}, 1)})
    anna.commits("anna commits", TOPIC, {0: 1})
    ben = Modern(talk, "ben", UP, [TOPIC])
    ben.joins("ben joins in the new way, and the group is a new one")
    both(talk, UP)
    anna.beats("anna hears of it")
    anna.commits("anna commits what she read", TOPIC, {0: 2})
    anna.syncs("she cannot ask for an assignment now")
    anna.joins("anna comes back, with nothing to keep her from it")
    anna.syncs("she learns what she has")
    settle(talk, 2, ben)
    ben.commits("ben commits", TOPIC, {2: 3})
    anna.beats("anna's heartbeat")
    both(talk, UP)
    old = anna.syncing(generation_id=anna.generation - 1)
    anna.voice.ask("a sync of the generation before", "SyncGroup", 5, old)
    anna.syncs("a sync with another protocol", protocol_name="roundrobin")
    anna.beats("a heartbeat of the generation before", generation_id=anna.generation - 1)
    anna.commits("anna commits", TOPIC, {0: 3})
    old_commit = {"generation_id_or_member_epoch": anna.generation - 1}
    anna.commits("a commit of the generation before", TOPIC, {0: 99}, **old_commit)
    carla = Classic(talk, "carla", UP, wishes(TOPIC, owned={}))
    carla.joins("carla comes in the old way, and is given an id")
    carla.leaves("she leaves again")
    anna.leaves("anna leaves")
    settle(talk, 4, ben)
    both(talk, UP)
    ben.leaves("ben leaves")
    both(talk, UP)


def down(talk: Dialogue, topic: bytes) -> None:
    anna = Modern(talk, "anna", DOWN, [TOPIC])
    anna.joins("anna joins in the new way")
    anna.takes("anna has everything")
    ben = Classic(talk, "ben", DOWN, wishes(TOPIC, owned={}))
    ben.joins("ben comes in the old way, and is given an id")
    ben.joins("ben joins: nothing is free yet")
    ben.syncs("and so he has nothing")
    anna.beats("anna hears what she may keep")
    anna.takes("anna has let go of the rest")
    ben.beats("ben hears that there is something")
    ben.joins("ben comes back")
    ben.syncs("ben has his half")
    ben.commits("ben commits", TOPIC, {2: 3})
    both(talk, DOWN)
    anna.leaves("anna leaves, and only old ones are left")
    both(talk, DOWN)
    ben.beats("ben hears of it")
    ben.joins("ben comes back, and leads")
    ben.syncs("ben takes everything", {ben.id: share({TOPIC: [0, 1, 2, 3]}, 1)})
    both(talk, DOWN)
    talk.ask("the offsets are there", "OffsetFetch", 7, {"group_id": DOWN, "topics": None})


def static(talk: Dialogue) -> None:
    anna = Classic(talk, "anna", STATIC, wishes(TOPIC), instance="desk-a")
    anna.joins("anna joins in the old way, under the name of her desk")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]})})
    again = Modern(talk, "anna, anew", STATIC, [TOPIC], instance="desk-a")
    again.joins("anna restarts in the new way: the group is a new one")
    anna.beats("the old one is fenced")
    both(talk, STATIC)
    again.takes("anna has taken everything")
    again.leaves("anna goes away for a while", -2)
    back = Classic(talk, "anna, as of old", STATIC, wishes(TOPIC), instance="desk-a")
    back.joins("anna restarts in the old way: the group is an old one")
    back.syncs("she has what she had")
    both(talk, STATIC)
    again.beats("the new one is gone")


def empty(talk: Dialogue) -> None:
    anna = Classic(talk, "anna", EMPTY, wishes(TOPIC))
    anna.is_introduced()
    anna.joins("anna joins in the old way")
    anna.syncs("anna takes everything", {anna.id: share({TOPIC: [0, 1, 2, 3]})})
    anna.commits("anna commits", TOPIC, {0: 7})
    anna.leaves("anna leaves")
    both(talk, EMPTY)
    ben = Modern(talk, "ben", EMPTY, [TOPIC])
    ben.joins("ben joins in the new way")
    both(talk, EMPTY)
    ben.leaves("ben leaves")
    carla = Classic(talk, "carla", EMPTY, wishes(TOPIC))
    carla.joins("carla comes in the old way, and is given an id")
    carla.joins("carla joins")
    both(talk, EMPTY)
    talk.ask("the offsets are there", "OffsetFetch", 7, {"group_id": EMPTY, "topics": None})


def refused(talk: Dialogue) -> None:
    group = "rolling-connect"
    coordinator_is_ready(talk, group)
    anna = Classic(talk, "anna", group, b"a worker's wishes")
    anna.joins("a worker is given an id", protocol_type="connect")
    anna.joins("the worker joins", protocol_type="connect")
    everything = {anna.id: b"all the work"}
    anna.syncs("the worker takes it all", everything, protocol_type="connect")
    both(talk, group)
    ben = Modern(talk, "ben", group, [TOPIC])
    ben.joins("ben does not fit in")
    anna.beats("the worker does not mind")
    group = "rolling-other"
    coordinator_is_ready(talk, group)
    carla = Modern(talk, "carla", group, [TOPIC])
    carla.joins("carla joins in the new way")
    dora = Classic(talk, "dora", group, b"a worker's wishes")
    dora.joins("a worker does not fit in", protocol_type="connect")
    dora.joins("nor does somebody without protocols", protocols=[])
    dora.joins("nor with an id", protocol_type="connect", member_id="dora")
    dora.version = 3
    dora.joins("garbage for wishes", protocols=[{"name": "range", "metadata": b"x"}])


def garbage(talk: Dialogue) -> None:
    group = "rolling-garbage"
    coordinator_is_ready(talk, group)
    anna = Classic(talk, "anna", group, b"x", version=3)
    anna.joins("anna joins with garbage for wishes")
    anna.syncs("and gives herself garbage", {anna.id: b"more garbage"})
    ben = Modern(talk, "ben", group, [TOPIC])
    unread = Differs(KAFKA_FAILS, {"error_code": "GROUP_ID_NOT_FOUND"})
    ben.voice.ask(
        "ben would have to read it",
        "ConsumerGroupHeartbeat",
        1,
        ben.entering(),
        differs=unread,
    )
    anna.beats("anna does not mind")
    both(talk, group)
    until_state(talk, group, "Stable", 1)
    group = "rolling-user-data"
    coordinator_is_ready(talk, group)
    carla = Classic(talk, "carla", group, wishes(TOPIC), version=3)
    carla.joins("carla joins")
    with_data = share({TOPIC: [0, 1]})[:-4] + (3).to_bytes(4, "big") + b"own"
    carla.syncs("and gives herself something of her own", {carla.id: with_data})
    ben = Modern(talk, "ben", group, [TOPIC])
    ben.joins("ben would lose it")
    both(talk, group)


def early(talk: Dialogue) -> None:
    group = "rolling-early"
    coordinator_is_ready(talk, group)
    anna = Classic(talk, "anna, early", group, wishes(TOPIC), instance="desk-a")
    anna.joins("anna joins in the old way, under the name of her desk, and assigns nothing")
    again = Modern(talk, "anna, early and anew", group, [TOPIC], instance="desk-a")
    everything = {
        "topic_partitions": [{"topic_id": f"<id of {TOPIC}>", "partitions": [0, 1, 2, 3]}]
    }
    at_once = Differs(IDLE, {"member_epoch": 2, "assignment": everything})
    fields = again.entering()
    answer = again.voice.ask(
        "anna restarts in the new way", "ConsumerGroupHeartbeat", 1, fields, differs=at_once
    )
    fields = again.beating(member_epoch=answer.member_epoch)
    later = Differs(IDLE, {"member_epoch": 2})
    again.voice.ask("and a heartbeat later", "ConsumerGroupHeartbeat", 1, fields, differs=later)


def other_wishes(talk: Dialogue) -> None:
    group = "rolling-back"
    coordinator_is_ready(talk, group)
    anna = Modern(talk, "anna, at first", group, [TOPIC], instance="desk-a")
    anna.joins("anna joins in the new way")
    anna.takes("anna has taken everything")
    anna.leaves("anna goes away for a while", -2)
    back = Classic(talk, "anna, in the end", group, wishes(TOPIC, "rolling-2"), instance="desk-a")
    name = f"<UUID of {back.name}>"
    herself = {
        "member_id": name,
        "group_instance_id": "desk-a",
        "metadata": {"version": 0, "topics": sorted([TOPIC, "rolling-2"])},
    }
    leads = {"generation_id": 3, "leader": name, "members": [herself]}
    back.voice.ask(
        "anna restarts in the old way, with other wishes",
        "JoinGroup",
        9,
        back.joining(),
        differs=Differs(TWICE, leads),
    )
