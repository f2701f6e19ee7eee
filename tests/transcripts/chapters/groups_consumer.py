"""A KIP-848 reconciliation: the broker assigns, and what one gives up another gets."""

from transcripts.chapters.groups_requests import Modern, coordinator_is_ready, settle, shown
from transcripts.dialogue import Dialogue

GROUP = "reconciliation"
FIRST, SECOND, GROWING = "reconciled-1", "reconciled-2", "reconciled-3"


def chapter(talk: Dialogue) -> None:
    first = talk.create(FIRST, 4)
    second = talk.create(SECOND, 2)
    talk.create(GROWING)
    coordinator_is_ready(talk, GROUP)
    anna = alone(talk, first)
    ben = second_comes(talk, anna, first)
    epochs(talk, anna, first)
    other_wishes(talk, anna, ben, first, second)
    carla = three(talk, anna, ben)
    one_leaves(talk, anna, ben, carla)
    topics_grow_and_go(talk, anna, carla)
    assignors(talk)
    given_id(talk)
    all_leave(talk, anna, carla)


def alone(talk: Dialogue, first: bytes) -> Modern:
    shown(talk, "nobody knows the group yet", GROUP)
    anna = Modern(talk, "anna", GROUP, [FIRST])
    anna.joins("anna joins, and everything is hers")
    shown(talk, "the group as it is told", GROUP)
    shown(talk, "and to an old client", GROUP, version=0)
    anna.beats("anna has not taken it yet")
    anna.takes("anna has taken it")
    anna.beats("a heartbeat with no news")
    anna.joins("anna says all of it again, as if the answer had been lost")
    anna.takes("she has taken it")
    anna.commits("anna commits", FIRST, {0: 10})
    return anna


def second_comes(talk: Dialogue, anna: Modern, first: bytes) -> Modern:
    ben = Modern(talk, "ben", GROUP, [FIRST])
    ben.joins("ben joins: nothing is free yet")
    shown(talk, "ben waits, and anna has not heard", GROUP)
    ben.beats("ben still waits")
    anna.commits("anna commits under her epoch", FIRST, {0: 20})
    anna.beats("anna hears what she may keep")
    shown(talk, "anna has to let go", GROUP)
    anna.beats("a heartbeat while she is at it")
    ben.beats("ben still waits")
    anna.takes("anna has let go of the rest")
    shown(talk, "anna is done", GROUP)
    ben.beats("ben gets it")
    ben.takes("ben has taken it")
    shown(talk, "all is settled", GROUP)
    ben.commits("ben commits", FIRST, {2: 5})
    return ben


def epochs(talk: Dialogue, anna: Modern, first: bytes) -> None:
    now = anna.epoch
    anna.beats("an epoch to come", member_epoch=now + 7)
    anna.beats("the epoch before, with nothing owned", member_epoch=now - 1)
    everything = [{"topic_id": first, "partitions": [0, 1, 2, 3]}]
    anna.epoch = now
    before = {"member_epoch": now - 1, "topic_partitions": everything}
    anna.beats("the epoch before, with what she gave up", **before)
    kept = [{"topic_id": first, "partitions": anna.owned[first]}]
    anna.beats("the epoch before, with what she has", **{**before, "topic_partitions": kept})
    anna.epoch = now
    anna.commits("a commit of the epoch before", FIRST, {0: 99}, generation_id_or_member_epoch=1)
    anna.commits("a commit of an epoch to come", FIRST, {0: 99}, generation_id_or_member_epoch=9)
    anna.commits("a commit of nobody", FIRST, {0: 99}, member_id="nobody")
    anna.commits("a commit without a member", FIRST, {0: 99}, member_id="")
    simple = {"member_id": "", "generation_id_or_member_epoch": -1}
    anna.commits("a commit from outside", FIRST, {0: 99}, **simple)
    offsets = {"group_id": GROUP, "topics": None}
    for title, member, epoch in (
        ("offsets for anna", "anna", now),
        ("offsets for an old anna", "anna", now - 1),
        ("offsets for a coming anna", "anna", now + 1),
        ("offsets for nobody", "nobody", now),
        ("offsets for whom it may concern", None, -1),
    ):
        asked = {**offsets, "member_id": member, "member_epoch": epoch}
        talk.ask(title, "OffsetFetch", 9, {"groups": [asked]})
    anna.beats("all is well with anna")


def other_wishes(talk: Dialogue, anna: Modern, ben: Modern, first: bytes, second: bytes) -> None:
    anna.beats("anna wishes for a second topic", subscribed_topic_names=[FIRST, SECOND])
    anna.takes("she has taken it")
    ben.beats("ben's epoch moves, and nothing else")
    shown(talk, "different wishes", GROUP)
    nowhere = [FIRST, SECOND, "reconciled-nowhere"]
    anna.beats("anna wishes for what is not there", subscribed_topic_names=nowhere)
    ben.beats("ben hears of it")
    ben.beats("the same wishes again are no news", subscribed_topic_names=[FIRST])
    anna.beats("anna is content with less", subscribed_topic_names=[FIRST])
    ben.beats("ben hears of it")
    anna.takes("anna has let go")
    ben.takes("ben has what he has")
    anna.beats("anna's heartbeat")
    shown(talk, "the same wishes", GROUP)


def three(talk: Dialogue, anna: Modern, ben: Modern) -> Modern:
    carla = Modern(talk, "carla", GROUP, [FIRST], version=0)
    carla.joins("carla joins with an old client")
    anna.beats("anna hears of it")
    ben.beats("ben hears of it")
    anna.takes("anna does as she was told")
    ben.takes("ben does as he was told")
    carla.beats("carla gets her share")
    carla.takes("carla has taken it")
    shown(talk, "three share four", GROUP, include_authorized_operations=True)
    return carla


def one_leaves(talk: Dialogue, anna: Modern, ben: Modern, carla: Modern) -> None:
    ben.leaves("ben leaves")
    shown(talk, "two are left, and have not heard", GROUP)
    ben.beats("ben is not known any more")
    ben.commits("ben cannot commit", FIRST, {2: 77})
    ben.leaves("he cannot leave twice")
    for _ in range(2):
        anna.beats("anna's heartbeat")
        carla.beats("carla's heartbeat")
    anna.takes("anna has what she has")
    carla.takes("carla has what she has")
    shown(talk, "two share four", GROUP)


def topics_grow_and_go(talk: Dialogue, anna: Modern, carla: Modern) -> None:
    anna.beats("anna wishes for another topic alone", subscribed_topic_names=[GROWING])
    carla.beats("carla too", subscribed_topic_names=[GROWING])
    settle(talk, 1, anna, carla)
    shown(talk, "one of them has the only partition", GROUP)
    more = {"name": GROWING, "count": 2, "assignments": None}
    talk.quietly("CreatePartitions", 3, {"topics": [more], "timeout_ms": 10_000})
    settle(talk, 2, anna, carla)
    shown(talk, "the topic has grown, and so has the share", GROUP)
    talk.quietly("DeleteTopics", 5, {"topic_names": [GROWING], "timeout_ms": 10_000})
    settle(talk, 0, anna, carla)
    shown(talk, "the topic is gone", GROUP)


def assignors(talk: Dialogue) -> None:
    group = "assignors"
    coordinator_is_ready(talk, group)
    members = [
        Modern(talk, name, group, [FIRST, SECOND], assignor=assignor)
        for name, assignor in (("dora", None), ("emil", "range"), ("fay", "range"))
    ]
    for each in members:
        each.joins(f"{each.name} joins, and wishes for {each.assignor or 'any assignor'}")
    settle(talk, 6, *members)
    shown(talk, "range, as most wish", group)
    members[1].beats("emil would now rather have it even", server_assignor="uniform")
    members[2].beats("and so would fay", server_assignor="uniform")
    settle(talk, 6, *members)
    shown(talk, "uniform, as most wish", group)


def given_id(talk: Dialogue) -> None:
    group = "given-ids"
    coordinator_is_ready(talk, group)
    gina = Modern(talk, "gina", group, [SECOND], version=0, id="")
    gina.joins("gina has no id, as old clients do, and is given one")
    gina.takes("gina has everything")
    gina.leaves("gina leaves")


def all_leave(talk: Dialogue, anna: Modern, carla: Modern) -> None:
    anna.leaves("anna leaves")
    carla.leaves("carla leaves")
    shown(talk, "nobody is left", GROUP)
    talk.ask("the offsets are still there", "OffsetFetch", 7, {"group_id": GROUP, "topics": None})
    anna.epoch, anna.owned = 0, {}
    anna.topics = [FIRST]
    anna.joins("anna comes back: epochs go on")
