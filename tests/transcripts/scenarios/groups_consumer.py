"""A KIP-848 reconciliation: the broker assigns, and what one gives up another gets."""

from transcripts.scenarios.group_members import (
    ConsumerMember,
    describe_consumer,
    settle,
    wait_for_coordinator,
)
from transcripts.transcript import Transcript

GROUP = "reconciliation"
FIRST, SECOND, GROWING = "reconciled-1", "reconciled-2", "reconciled-3"


def run(transcript: Transcript) -> None:
    first = transcript.create_topic(FIRST, 4)
    second = transcript.create_topic(SECOND, 2)
    transcript.create_topic(GROWING)
    wait_for_coordinator(transcript, GROUP)
    anna = alone(transcript, first)
    ben = second_comes(transcript, anna, first)
    epochs(transcript, anna, first)
    other_wishes(transcript, anna, ben, first, second)
    carla = three(transcript, anna, ben)
    one_leaves(transcript, anna, ben, carla)
    topics_grow_and_go(transcript, anna, carla)
    assignors(transcript)
    given_id(transcript)
    all_leave(transcript, anna, carla)


def alone(transcript: Transcript, first: bytes) -> ConsumerMember:
    describe_consumer(transcript, "nobody knows the group yet", GROUP)
    anna = ConsumerMember(transcript, "anna", GROUP, [FIRST])
    anna.join("anna joins, and everything is hers")
    describe_consumer(transcript, "the group as it is told", GROUP)
    describe_consumer(transcript, "and to an old client", GROUP, version=0)
    anna.heartbeat("anna has not taken it yet")
    anna.confirm_assignment("anna has taken it")
    anna.heartbeat("a heartbeat with no news")
    anna.join("anna says all of it again, as if the answer had been lost")
    anna.confirm_assignment("she has taken it")
    anna.commit("anna commits", FIRST, {0: 10})
    return anna


def second_comes(transcript: Transcript, anna: ConsumerMember, first: bytes) -> ConsumerMember:
    ben = ConsumerMember(transcript, "ben", GROUP, [FIRST])
    ben.join("ben joins: nothing is free yet")
    describe_consumer(transcript, "ben waits, and anna has not heard", GROUP)
    ben.heartbeat("ben still waits")
    anna.commit("anna commits under her epoch", FIRST, {0: 20})
    anna.heartbeat("anna hears what she may keep")
    describe_consumer(transcript, "anna has to let go", GROUP)
    anna.heartbeat("a heartbeat while she is at it")
    ben.heartbeat("ben still waits")
    anna.confirm_assignment("anna has let go of the rest")
    describe_consumer(transcript, "anna is done", GROUP)
    ben.heartbeat("ben gets it")
    ben.confirm_assignment("ben has taken it")
    describe_consumer(transcript, "all is settled", GROUP)
    ben.commit("ben commits", FIRST, {2: 5})
    return ben


def epochs(transcript: Transcript, anna: ConsumerMember, first: bytes) -> None:
    now = anna.epoch
    anna.heartbeat("an epoch to come", member_epoch=now + 7)
    anna.heartbeat("the epoch before, with nothing owned", member_epoch=now - 1)
    everything = [{"topic_id": first, "partitions": [0, 1, 2, 3]}]
    anna.epoch = now
    before = {"member_epoch": now - 1, "topic_partitions": everything}
    anna.heartbeat("the epoch before, with what she gave up", **before)
    kept = [{"topic_id": first, "partitions": anna.owned[first]}]
    anna.heartbeat("the epoch before, with what she has", **{**before, "topic_partitions": kept})
    anna.epoch = now
    anna.commit("a commit of the epoch before", FIRST, {0: 99}, generation_id_or_member_epoch=1)
    anna.commit("a commit of an epoch to come", FIRST, {0: 99}, generation_id_or_member_epoch=9)
    anna.commit("a commit of nobody", FIRST, {0: 99}, member_id="nobody")
    anna.commit("a commit without a member", FIRST, {0: 99}, member_id="")
    simple = {"member_id": "", "generation_id_or_member_epoch": -1}
    anna.commit("a commit from outside", FIRST, {0: 99}, **simple)
    offsets = {"group_id": GROUP, "topics": None}
    for title, member, epoch in (
        ("offsets for anna", "anna", now),
        ("offsets for an old anna", "anna", now - 1),
        ("offsets for a coming anna", "anna", now + 1),
        ("offsets for nobody", "nobody", now),
        ("offsets for whom it may concern", None, -1),
    ):
        asked = {**offsets, "member_id": member, "member_epoch": epoch}
        transcript.request(title, "OffsetFetch", 9, {"groups": [asked]})
    anna.heartbeat("all is well with anna")


def other_wishes(
    transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember, first: bytes, second: bytes
) -> None:
    anna.heartbeat("anna wishes for a second topic", subscribed_topic_names=[FIRST, SECOND])
    anna.confirm_assignment("she has taken it")
    ben.heartbeat("ben's epoch moves, and nothing else")
    describe_consumer(transcript, "different wishes", GROUP)
    nowhere = [FIRST, SECOND, "reconciled-nowhere"]
    anna.heartbeat("anna wishes for what is not there", subscribed_topic_names=nowhere)
    ben.heartbeat("ben hears of it")
    ben.heartbeat("the same wishes again are no news", subscribed_topic_names=[FIRST])
    anna.heartbeat("anna is content with less", subscribed_topic_names=[FIRST])
    ben.heartbeat("ben hears of it")
    anna.confirm_assignment("anna has let go")
    ben.confirm_assignment("ben has what he has")
    anna.heartbeat("anna's heartbeat")
    describe_consumer(transcript, "the same wishes", GROUP)


def three(transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember) -> ConsumerMember:
    carla = ConsumerMember(transcript, "carla", GROUP, [FIRST], version=0)
    carla.join("carla joins with an old client")
    anna.heartbeat("anna hears of it")
    ben.heartbeat("ben hears of it")
    anna.confirm_assignment("anna does as she was told")
    ben.confirm_assignment("ben does as he was told")
    carla.heartbeat("carla gets her share")
    carla.confirm_assignment("carla has taken it")
    describe_consumer(transcript, "three share four", GROUP, include_authorized_operations=True)
    return carla


def one_leaves(
    transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember, carla: ConsumerMember
) -> None:
    ben.leave("ben leaves")
    describe_consumer(transcript, "two are left, and have not heard", GROUP)
    ben.heartbeat("ben is not known any more")
    ben.commit("ben cannot commit", FIRST, {2: 77})
    ben.leave("he cannot leave twice")
    for _ in range(2):
        anna.heartbeat("anna's heartbeat")
        carla.heartbeat("carla's heartbeat")
    anna.confirm_assignment("anna has what she has")
    carla.confirm_assignment("carla has what she has")
    describe_consumer(transcript, "two share four", GROUP)


def topics_grow_and_go(transcript: Transcript, anna: ConsumerMember, carla: ConsumerMember) -> None:
    anna.heartbeat("anna wishes for another topic alone", subscribed_topic_names=[GROWING])
    carla.heartbeat("carla too", subscribed_topic_names=[GROWING])
    settle(transcript, 1, anna, carla)
    describe_consumer(transcript, "one of them has the only partition", GROUP)
    more = {"name": GROWING, "count": 2, "assignments": None}
    transcript.request_unrecorded("CreatePartitions", 3, {"topics": [more], "timeout_ms": 10_000})
    settle(transcript, 2, anna, carla)
    describe_consumer(transcript, "the topic has grown, and so has the share", GROUP)
    transcript.request_unrecorded(
        "DeleteTopics", 5, {"topic_names": [GROWING], "timeout_ms": 10_000}
    )
    settle(transcript, 0, anna, carla)
    describe_consumer(transcript, "the topic is gone", GROUP)


def assignors(transcript: Transcript) -> None:
    group = "assignors"
    wait_for_coordinator(transcript, group)
    members = [
        ConsumerMember(transcript, name, group, [FIRST, SECOND], assignor=assignor)
        for name, assignor in (("dora", None), ("emil", "range"), ("fay", "range"))
    ]
    for each in members:
        each.join(f"{each.name} joins, and wishes for {each.assignor or 'any assignor'}")
    settle(transcript, 6, *members)
    describe_consumer(transcript, "range, as most wish", group)
    members[1].heartbeat("emil would now rather have it even", server_assignor="uniform")
    members[2].heartbeat("and so would fay", server_assignor="uniform")
    settle(transcript, 6, *members)
    describe_consumer(transcript, "uniform, as most wish", group)


def given_id(transcript: Transcript) -> None:
    group = "given-ids"
    wait_for_coordinator(transcript, group)
    gina = ConsumerMember(transcript, "gina", group, [SECOND], version=0, id="")
    gina.join("gina has no id, as old clients do, and is given one")
    gina.confirm_assignment("gina has everything")
    gina.leave("gina leaves")


def all_leave(transcript: Transcript, anna: ConsumerMember, carla: ConsumerMember) -> None:
    anna.leave("anna leaves")
    carla.leave("carla leaves")
    describe_consumer(transcript, "nobody is left", GROUP)
    transcript.request(
        "the offsets are still there", "OffsetFetch", 7, {"group_id": GROUP, "topics": None}
    )
    anna.epoch, anna.owned = 0, {}
    anna.topics = [FIRST]
    anna.join("anna comes back: epochs go on")
