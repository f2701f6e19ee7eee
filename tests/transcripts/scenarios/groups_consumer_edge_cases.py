"""Consumer groups: static members, regular expressions, and invalid requests."""

from typing import Any

from transcripts.scenarios.group_members import (
    ConsumerMember,
    describe_consumer,
    settle,
    wait_for_coordinator,
)
from transcripts.transcript import Transcript

STATIC, PATTERN, BOTH, BAD = "odd-static", "odd-pattern", "odd-both", "odd-bad"
TOPIC = "odd-topic"
AWAY = -2
"""The member epoch of a static member that leaves temporarily."""


def run(transcript: Transcript) -> None:
    topic = transcript.create_topic(TOPIC, 4)
    transcript.create_topic("odd-other", 2)
    wait_for_coordinator(transcript, STATIC, PATTERN, BOTH, BAD)
    static_members(transcript)
    static_errors(transcript)
    regular_expressions(transcript)
    invalid_joins(transcript, topic)
    invalid_heartbeats(transcript, topic)
    unknown_members(transcript)


def static_members(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", STATIC, [TOPIC], instance="desk-a")
    ben = ConsumerMember(transcript, "ben", STATIC, [TOPIC], instance="desk-b")
    anna.join("anna joins with an instance id")
    ben.join("ben joins with an instance id")
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "two static members", STATIC)
    double = ConsumerMember(transcript, "ben's double", STATIC, [TOPIC], instance="desk-b")
    double.join("another member with ben's instance id is refused")
    ben.leave("ben leaves temporarily", AWAY)
    describe_consumer(transcript, "ben's assignment is kept", STATIC)
    anna.heartbeat("anna's heartbeat shows no change")
    ben.heartbeat("a heartbeat of ben while away")
    double.join("another member takes over ben's instance id and assignment")
    describe_consumer(transcript, "the group with the new member", STATIC)
    ben.heartbeat("a heartbeat of ben is fenced")
    ben.join("a join of ben is refused")
    ben.commit("a commit of ben is refused", TOPIC, {2: 5})
    double.confirm_assignment("the double confirms the assignment")
    double.commit("the double commits", TOPIC, {2: 6})
    anna.heartbeat("anna's heartbeat shows no change")
    double.leave("the double leaves permanently")
    describe_consumer(transcript, "the instance id is free", STATIC)
    settle(transcript, 4, anna)
    again = ConsumerMember(transcript, "anna", STATIC, [TOPIC], instance="desk-a")
    again.join("anna restarts with the same member id")
    describe_consumer(transcript, "anna is alone", STATIC)


def static_errors(transcript: Transcript) -> None:
    carla = ConsumerMember(transcript, "carla", STATIC, [TOPIC], instance="desk-c")
    carla.epoch = 3
    carla.heartbeat("a heartbeat with an unused instance id")
    carla.leave("a temporary leave with an unused instance id", AWAY)
    carla.leave("a permanent leave with an unused instance id")
    carla.instance = "desk-a"
    carla.heartbeat("a heartbeat with the instance id of another member")
    carla.leave("a temporary leave with the instance id of another member", AWAY)
    carla.leave("a permanent leave with the instance id of another member")
    carla.instance = None
    carla.leave("a temporary leave without an instance id", AWAY)


def regular_expressions(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", PATTERN, None, regex="odd-.*")
    anna.join("anna joins with a regular expression, resolved later")
    settle(transcript, 6, anna)
    describe_consumer(transcript, "anna has all topics of the regular expression", PATTERN)
    ben = ConsumerMember(transcript, "ben", PATTERN, None, regex="odd-.*")
    ben.join("ben joins with the same regular expression")
    settle(transcript, 6, anna, ben)  # the assignment depends on the order of the topic ids
    anna.heartbeat("anna unsubscribes", subscribed_topic_regex="")
    settle(transcript, 6, anna, ben)
    describe_consumer(transcript, "ben has all partitions", PATTERN)
    for regex in ("[", "a{2,1}", "(?<name>x", "*"):
        anna.heartbeat(f"an invalid regular expression: {regex}", subscribed_topic_regex=regex)
    bad = ConsumerMember(transcript, "bad", PATTERN, None, regex="(")
    bad.join("a join with an invalid regular expression")
    anna.heartbeat("anna's heartbeat shows no change")
    ben.heartbeat(
        "ben subscribes with another regular expression", subscribed_topic_regex="odd-top.c"
    )
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "ben has the topics of the regular expression", PATTERN)
    carla = ConsumerMember(transcript, "carla", BOTH, ["odd-other"], regex="odd-top.c")
    carla.join("carla joins with a topic and a regular expression")
    settle(transcript, 6, carla)
    describe_consumer(transcript, "carla has the topics of both", BOTH)
    carla.heartbeat("carla drops the regular expression", subscribed_topic_regex="")
    settle(transcript, 2, carla)
    describe_consumer(transcript, "carla has the topic", BOTH)
    carla.heartbeat("a regular expression without matches", subscribed_topic_regex="nowhere-.*")
    settle(transcript, 2, carla)


def invalid_joins(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", BAD, [TOPIC])

    def refused(title: str, version: int = 1, **more: Any) -> None:
        fields = {**anna.join_fields(), **more}
        anna.client.request(title, "ConsumerGroupHeartbeat", version, fields)

    owned = [{"topic_id": topic, "partitions": [0]}]
    refused("an empty group id", group_id="")
    refused("an empty member id", member_id="")
    refused("no rebalance timeout", rebalance_timeout_ms=-1)
    refused("null for owned partitions", topic_partitions=None)
    refused("owned partitions in a join", topic_partitions=owned)
    refused("no subscription", subscribed_topic_names=None)
    refused("no subscription, version 0", 0, subscribed_topic_names=None)
    refused("an empty instance id", instance_id="")
    refused("an empty rack id", rack_id="")
    refused("an unknown assignor", server_assignor="alphabetical")
    refused("an empty assignor name", server_assignor="")
    refused("an epoch below -2", member_epoch=-3)
    refused("a first heartbeat with an epoch", member_epoch=5)
    refused("leaving before joining", member_epoch=-1)
    refused("a temporary leave before joining", member_epoch=AWAY, instance_id="desk-a")
    describe_consumer(transcript, "the group does not exist", BAD)
    anna.join("anna joins with an empty subscription", subscribed_topic_names=[])
    describe_consumer(transcript, "a group without partitions", BAD)
    anna.join("anna joins with a rack id", rack_id="rack-1")
    describe_consumer(transcript, "a group with a rack id", BAD)


def invalid_heartbeats(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", BAD, [TOPIC])
    anna.join("anna joins again")
    anna.confirm_assignment("anna confirms all partitions")
    unknown = [{"topic_id": bytes(range(16)), "partitions": [0]}]
    anna.heartbeat("an unknown topic in owned partitions", topic_partitions=unknown)
    beyond = [{"topic_id": topic, "partitions": [0, 1, 2, 3, 77]}]
    anna.heartbeat("an unknown partition in owned partitions", topic_partitions=beyond)
    twice = [{"topic_id": topic, "partitions": [0, 0]}]
    anna.heartbeat("a duplicate in owned partitions", topic_partitions=twice)
    anna.heartbeat("no owned partitions", topic_partitions=[])
    anna.confirm_assignment("anna confirms all partitions")
    anna.heartbeat("an unknown assignor", server_assignor="alphabetical")
    anna.heartbeat("a topic name above the maximum length", subscribed_topic_names=["x" * 300])
    anna.heartbeat("an invalid topic name", subscribed_topic_names=["not a name!"])
    anna.heartbeat("the same topic name twice", subscribed_topic_names=[TOPIC, TOPIC])
    describe_consumer(transcript, "the group is unchanged", BAD)
    anna.leave("anna leaves")


def unknown_members(transcript: Transcript) -> None:
    ben = ConsumerMember(transcript, "ben", BAD, [TOPIC])
    ben.epoch = 1
    ben.heartbeat("an unknown member")
    ben.group = "odd-unknown"
    ben.heartbeat("an unknown group")
    ben.leave("leaving an unknown group")
    ben.commit("a commit to an unknown group", TOPIC, {0: 1})
    describe_consumer(transcript, "an empty group id", "")
    describe_consumer(transcript, "several groups", "odd-unknown", STATIC, BAD)
    describe_consumer(transcript, "the same group twice", BAD, BAD)
    describe_consumer(transcript, "no groups")
    classic = {"group_id": STATIC, "generation_id": 1, "member_id": "anna"}
    transcript.request("a classic heartbeat", "Heartbeat", 4, classic)
    transcript.request("a classic sync", "SyncGroup", 5, classic)
    leave = {"group_id": STATIC, "members": [{"member_id": "nobody"}]}
    transcript.request("a classic leave of an unknown member", "LeaveGroup", 5, leave)
    leave = {"group_id": STATIC, "members": [{"member_id": "", "group_instance_id": "desk-a"}]}
    transcript.request("a classic leave with anna's instance id", "LeaveGroup", 5, leave)
    describe_consumer(transcript, "anna has left", STATIC)
