"""Consumer groups: members with a name of their own, patterns for topics, and bad requests."""

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
"""A static member leaves for a while."""


def run(transcript: Transcript) -> None:
    topic = transcript.create_topic(TOPIC, 4)
    transcript.create_topic("odd-other", 2)
    wait_for_coordinator(transcript, STATIC, PATTERN, BOTH, BAD)
    static_members(transcript)
    static_refusals(transcript)
    patterns(transcript)
    first_requests(transcript, topic)
    later_requests(transcript, topic)
    strangers(transcript)


def static_members(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", STATIC, [TOPIC], instance="desk-a")
    ben = ConsumerMember(transcript, "ben", STATIC, [TOPIC], instance="desk-b")
    anna.join("anna joins under the name of her desk")
    ben.join("ben joins under the name of his")
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "two at their desks", STATIC)
    double = ConsumerMember(transcript, "ben's double", STATIC, [TOPIC], instance="desk-b")
    double.join("somebody wants ben's desk while he sits there")
    ben.leave("ben goes away for a while", AWAY)
    describe_consumer(transcript, "his desk is kept", STATIC)
    anna.heartbeat("anna does not notice")
    ben.heartbeat("ben is not there")
    double.join("now the desk can be had, with what ben had")
    describe_consumer(transcript, "somebody else sits at his desk", STATIC)
    ben.heartbeat("ben cannot come back")
    ben.join("nor join again")
    ben.commit("nor commit", TOPIC, {2: 5})
    double.confirm_assignment("the double has taken it")
    double.commit("the double commits", TOPIC, {2: 6})
    anna.heartbeat("anna still notices nothing")
    double.leave("the double leaves for good")
    describe_consumer(transcript, "the desk is free", STATIC)
    settle(transcript, 4, anna)
    again = ConsumerMember(transcript, "anna", STATIC, [TOPIC], instance="desk-a")
    again.join("anna restarts under the same id")
    describe_consumer(transcript, "anna is alone", STATIC)


def static_refusals(transcript: Transcript) -> None:
    carla = ConsumerMember(transcript, "carla", STATIC, [TOPIC], instance="desk-c")
    carla.epoch = 3
    carla.heartbeat("a desk that is not taken")
    carla.leave("leaving for a while from it", AWAY)
    carla.leave("leaving for good from it")
    carla.instance = "desk-a"
    carla.heartbeat("a desk that somebody else has")
    carla.leave("leaving it for somebody else", AWAY)
    carla.leave("leaving it for good for somebody else")
    carla.instance = None
    carla.leave("leaving for a while without a desk", AWAY)


def patterns(transcript: Transcript) -> None:
    anna = ConsumerMember(transcript, "anna", PATTERN, None, regex="odd-.*")
    anna.join("anna joins with a pattern, and it takes a moment to look")
    settle(transcript, 6, anna)
    describe_consumer(transcript, "all topics of the pattern are hers", PATTERN)
    ben = ConsumerMember(transcript, "ben", PATTERN, None, regex="odd-.*")
    ben.join("ben joins with the same pattern")
    settle(transcript, 6, anna, ben)  # who gets which depends on the order of the topics' ids
    anna.heartbeat("anna wishes for nothing", subscribed_topic_regex="")
    settle(transcript, 6, anna, ben)
    describe_consumer(transcript, "ben has everything", PATTERN)
    for regex in ("[", "a{2,1}", "(?<name>x", "*"):
        anna.heartbeat(f"a pattern that is none: {regex}", subscribed_topic_regex=regex)
    bad = ConsumerMember(transcript, "bad", PATTERN, None, regex="(")
    bad.join("nobody joins with one")
    anna.heartbeat("anna has not changed")
    ben.heartbeat("ben wishes for another pattern", subscribed_topic_regex="odd-top.c")
    settle(transcript, 4, anna, ben)
    describe_consumer(transcript, "ben has what it says", PATTERN)
    carla = ConsumerMember(transcript, "carla", BOTH, ["odd-other"], regex="odd-top.c")
    carla.join("carla joins with a topic and a pattern")
    settle(transcript, 6, carla)
    describe_consumer(transcript, "she has both", BOTH)
    carla.heartbeat("carla is content with the topic", subscribed_topic_regex="")
    settle(transcript, 2, carla)
    describe_consumer(transcript, "she has the topic", BOTH)
    carla.heartbeat("a pattern of which nothing is", subscribed_topic_regex="nowhere-.*")
    settle(transcript, 2, carla)


def first_requests(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", BAD, [TOPIC])

    def refused(title: str, version: int = 1, **more: Any) -> None:
        fields = {**anna.join_fields(), **more}
        anna.client.request(title, "ConsumerGroupHeartbeat", version, fields)

    owned = [{"topic_id": topic, "partitions": [0]}]
    refused("no group", group_id="")
    refused("no id", member_id="")
    refused("no rebalance time-out", rebalance_timeout_ms=-1)
    refused("null instead of what it owns", topic_partitions=None)
    refused("a member that owns something already", topic_partitions=owned)
    refused("no wishes", subscribed_topic_names=None)
    refused("no wishes to an old broker", 0, subscribed_topic_names=None)
    refused("a desk without a name", instance_id="")
    refused("a rack without a name", rack_id="")
    refused("an assignor that nobody has", server_assignor="alphabetical")
    refused("an assignor without a name", server_assignor="")
    refused("an epoch below all that has a meaning", member_epoch=-3)
    refused("a first request with an epoch", member_epoch=5)
    refused("leaving before joining", member_epoch=-1)
    refused("a moment's leave before joining", member_epoch=AWAY, instance_id="desk-a")
    describe_consumer(transcript, "there is still no group", BAD)
    anna.join("anna joins, and wishes for nothing", subscribed_topic_names=[])
    describe_consumer(transcript, "a group that reads nothing", BAD)
    anna.join("anna has a rack, and wishes", rack_id="rack-1")
    describe_consumer(transcript, "a group with a rack", BAD)


def later_requests(transcript: Transcript, topic: bytes) -> None:
    anna = ConsumerMember(transcript, "anna", BAD, [TOPIC])
    anna.join("anna joins again")
    anna.confirm_assignment("anna has everything")
    unknown = [{"topic_id": bytes(range(16)), "partitions": [0]}]
    anna.heartbeat("anna owns what is not there", topic_partitions=unknown)
    beyond = [{"topic_id": topic, "partitions": [0, 1, 2, 3, 77]}]
    anna.heartbeat("anna owns too much", topic_partitions=beyond)
    twice = [{"topic_id": topic, "partitions": [0, 0]}]
    anna.heartbeat("anna owns it twice", topic_partitions=twice)
    anna.heartbeat("anna owns nothing", topic_partitions=[])
    anna.confirm_assignment("anna has everything")
    anna.heartbeat("an assignor that nobody has", server_assignor="alphabetical")
    anna.heartbeat("a long name", subscribed_topic_names=["x" * 300])
    anna.heartbeat("a name that is none", subscribed_topic_names=["not a name!"])
    anna.heartbeat("the same name twice", subscribed_topic_names=[TOPIC, TOPIC])
    describe_consumer(transcript, "the group is unharmed", BAD)
    anna.leave("anna leaves")


def strangers(transcript: Transcript) -> None:
    ben = ConsumerMember(transcript, "ben", BAD, [TOPIC])
    ben.epoch = 1
    ben.heartbeat("a member that is not known")
    ben.group = "odd-unknown"
    ben.heartbeat("a group that is not known")
    ben.leave("leaving a group that is not known")
    ben.commit("a commit to a group that is not known", TOPIC, {0: 1})
    describe_consumer(transcript, "no group", "")
    describe_consumer(transcript, "several groups", "odd-unknown", STATIC, BAD)
    describe_consumer(transcript, "the same group twice", BAD, BAD)
    describe_consumer(transcript, "no groups at all")
    classic = {"group_id": STATIC, "generation_id": 1, "member_id": "anna"}
    transcript.request("a classic heartbeat", "Heartbeat", 4, classic)
    transcript.request("a classic sync", "SyncGroup", 5, classic)
    leave = {"group_id": STATIC, "members": [{"member_id": "nobody"}]}
    transcript.request("a classic leave of a stranger", "LeaveGroup", 5, leave)
    leave = {"group_id": STATIC, "members": [{"member_id": "", "group_instance_id": "desk-a"}]}
    transcript.request("a classic leave for anna's desk", "LeaveGroup", 5, leave)
    describe_consumer(transcript, "her desk is free", STATIC)
