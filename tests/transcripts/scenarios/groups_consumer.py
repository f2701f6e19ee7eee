"""Reconciliation of a consumer group (KIP-848): revoked partitions move to other members."""

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
    anna = first_member(transcript, first)
    ben = second_member(transcript, anna, first)
    epochs(transcript, anna, first)
    changed_subscriptions(transcript, anna, ben, first, second)
    carla = third_member(transcript, anna, ben)
    member_leaves(transcript, anna, ben, carla)
    changed_topics(transcript, anna, carla)
    assignors(transcript)
    assigned_member_id(transcript)
    all_leave(transcript, anna, carla)


def first_member(transcript: Transcript, first: bytes) -> ConsumerMember:
    describe_consumer(transcript, "an unknown group", GROUP)
    anna = ConsumerMember(transcript, "anna", GROUP, [FIRST])
    anna.join("anna joins and is assigned all partitions")
    describe_consumer(transcript, "the group", GROUP)
    describe_consumer(transcript, "the group, version 0", GROUP, version=0)
    anna.heartbeat("a heartbeat before anna confirms")
    anna.confirm_assignment("anna confirms the assignment")
    anna.heartbeat("a heartbeat without changes")
    anna.join("anna joins again, as if the response was lost")
    anna.confirm_assignment("anna confirms the assignment")
    anna.commit("anna commits", FIRST, {0: 10})
    return anna


def second_member(transcript: Transcript, anna: ConsumerMember, first: bytes) -> ConsumerMember:
    ben = ConsumerMember(transcript, "ben", GROUP, [FIRST])
    ben.join("ben joins; no partition is free yet")
    describe_consumer(transcript, "ben waits, anna has not sent a heartbeat", GROUP)
    ben.heartbeat("ben still waits")
    anna.commit("anna commits with her epoch", FIRST, {0: 20})
    anna.heartbeat("anna gets a reduced assignment")
    describe_consumer(transcript, "anna has to revoke partitions", GROUP)
    anna.heartbeat("a heartbeat during the revocation")
    ben.heartbeat("ben still waits")
    anna.confirm_assignment("anna confirms the reduced assignment")
    describe_consumer(transcript, "anna has revoked", GROUP)
    ben.heartbeat("ben gets the free partitions")
    ben.confirm_assignment("ben confirms the assignment")
    describe_consumer(transcript, "the group is stable", GROUP)
    ben.commit("ben commits", FIRST, {2: 5})
    return ben


def epochs(transcript: Transcript, anna: ConsumerMember, first: bytes) -> None:
    now = anna.epoch
    anna.heartbeat("a future epoch", member_epoch=now + 7)
    anna.heartbeat("the previous epoch, without owned partitions", member_epoch=now - 1)
    everything = [{"topic_id": first, "partitions": [0, 1, 2, 3]}]
    anna.epoch = now
    before = {"member_epoch": now - 1, "topic_partitions": everything}
    anna.heartbeat("the previous epoch, with revoked partitions", **before)
    kept = [{"topic_id": first, "partitions": anna.owned[first]}]
    anna.heartbeat(
        "the previous epoch, with owned partitions", **{**before, "topic_partitions": kept}
    )
    anna.epoch = now
    anna.commit("a commit with the previous epoch", FIRST, {0: 99}, generation_id_or_member_epoch=1)
    anna.commit("a commit with a future epoch", FIRST, {0: 99}, generation_id_or_member_epoch=9)
    anna.commit("a commit with an unknown member id", FIRST, {0: 99}, member_id="nobody")
    anna.commit("a commit without a member id", FIRST, {0: 99}, member_id="")
    simple = {"member_id": "", "generation_id_or_member_epoch": -1}
    anna.commit("a commit from outside the group", FIRST, {0: 99}, **simple)
    offsets = {"group_id": GROUP, "topics": None}
    for title, member, epoch in (
        ("offsets with anna's epoch", "anna", now),
        ("offsets with a previous epoch", "anna", now - 1),
        ("offsets with a future epoch", "anna", now + 1),
        ("offsets with an unknown member id", "nobody", now),
        ("offsets without a member id", None, -1),
    ):
        asked = {**offsets, "member_id": member, "member_epoch": epoch}
        transcript.request(title, "OffsetFetch", 9, {"groups": [asked]})
    anna.heartbeat("anna's heartbeat succeeds")


def changed_subscriptions(
    transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember, first: bytes, second: bytes
) -> None:
    anna.heartbeat("anna subscribes to a second topic", subscribed_topic_names=[FIRST, SECOND])
    anna.confirm_assignment("anna confirms the assignment")
    ben.heartbeat("ben's epoch changes only")
    describe_consumer(transcript, "different subscriptions", GROUP)
    nowhere = [FIRST, SECOND, "reconciled-nowhere"]
    anna.heartbeat("anna subscribes to an unknown topic", subscribed_topic_names=nowhere)
    ben.heartbeat("ben learns of the rebalance")
    ben.heartbeat("an unchanged subscription", subscribed_topic_names=[FIRST])
    anna.heartbeat("anna subscribes to one topic again", subscribed_topic_names=[FIRST])
    ben.heartbeat("ben learns of the rebalance")
    anna.confirm_assignment("anna confirms the reduced assignment")
    ben.confirm_assignment("ben confirms his assignment")
    anna.heartbeat("anna's heartbeat")
    describe_consumer(transcript, "equal subscriptions", GROUP)


def third_member(
    transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember
) -> ConsumerMember:
    carla = ConsumerMember(transcript, "carla", GROUP, [FIRST], version=0)
    carla.join("carla joins with version 0")
    anna.heartbeat("anna learns of the rebalance")
    ben.heartbeat("ben learns of the rebalance")
    anna.confirm_assignment("anna confirms her assignment")
    ben.confirm_assignment("ben confirms his assignment")
    carla.heartbeat("carla gets her assignment")
    carla.confirm_assignment("carla confirms the assignment")
    describe_consumer(
        transcript, "three members, four partitions", GROUP, include_authorized_operations=True
    )
    return carla


def member_leaves(
    transcript: Transcript, anna: ConsumerMember, ben: ConsumerMember, carla: ConsumerMember
) -> None:
    ben.leave("ben leaves")
    describe_consumer(transcript, "two members are left, before their heartbeats", GROUP)
    ben.heartbeat("ben is an unknown member")
    ben.commit("a commit of ben fails", FIRST, {2: 77})
    ben.leave("a second leave fails")
    for _ in range(2):
        anna.heartbeat("anna's heartbeat")
        carla.heartbeat("carla's heartbeat")
    anna.confirm_assignment("anna confirms her assignment")
    carla.confirm_assignment("carla confirms her assignment")
    describe_consumer(transcript, "two members, four partitions", GROUP)


def changed_topics(transcript: Transcript, anna: ConsumerMember, carla: ConsumerMember) -> None:
    anna.heartbeat("anna subscribes to another topic only", subscribed_topic_names=[GROWING])
    carla.heartbeat("carla subscribes to another topic only", subscribed_topic_names=[GROWING])
    settle(transcript, 1, anna, carla)
    describe_consumer(transcript, "two members, one partition", GROUP)
    more = {"name": GROWING, "count": 2, "assignments": None}
    transcript.request_unrecorded("CreatePartitions", 3, {"topics": [more], "timeout_ms": 10_000})
    settle(transcript, 2, anna, carla)
    describe_consumer(transcript, "after the topic got a second partition", GROUP)
    transcript.request_unrecorded(
        "DeleteTopics", 5, {"topic_names": [GROWING], "timeout_ms": 10_000}
    )
    settle(transcript, 0, anna, carla)
    describe_consumer(transcript, "after the topic was deleted", GROUP)


def assignors(transcript: Transcript) -> None:
    group = "assignors"
    wait_for_coordinator(transcript, group)
    members = [
        ConsumerMember(transcript, name, group, [FIRST, SECOND], assignor=assignor)
        for name, assignor in (("dora", None), ("emil", "range"), ("fay", "range"))
    ]
    for each in members:
        each.join(f"{each.name} joins and prefers {each.assignor or 'any assignor'}")
    settle(transcript, 6, *members)
    describe_consumer(transcript, "range, as most members prefer", group)
    members[1].heartbeat("emil prefers uniform", server_assignor="uniform")
    members[2].heartbeat("fay prefers uniform", server_assignor="uniform")
    settle(transcript, 6, *members)
    describe_consumer(transcript, "uniform, as most members prefer", group)


def assigned_member_id(transcript: Transcript) -> None:
    group = "given-ids"
    wait_for_coordinator(transcript, group)
    gina = ConsumerMember(transcript, "gina", group, [SECOND], version=0, id="")
    gina.join("gina joins without a member id and gets one")
    gina.confirm_assignment("gina confirms all partitions")
    gina.leave("gina leaves")


def all_leave(transcript: Transcript, anna: ConsumerMember, carla: ConsumerMember) -> None:
    anna.leave("anna leaves")
    carla.leave("carla leaves")
    describe_consumer(transcript, "no member is left", GROUP)
    transcript.request(
        "the committed offsets remain", "OffsetFetch", 7, {"group_id": GROUP, "topics": None}
    )
    anna.epoch, anna.owned = 0, {}
    anna.topics = [FIRST]
    anna.join("anna joins again; epochs continue")
