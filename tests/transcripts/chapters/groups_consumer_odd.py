"""Consumer groups: members with a name of their own, patterns for topics, and bad requests."""

from typing import Any

from transcripts.chapters.groups_requests import Modern, coordinator_is_ready, settle, shown
from transcripts.dialogue import Dialogue

STATIC, PATTERN, BOTH, BAD = "odd-static", "odd-pattern", "odd-both", "odd-bad"
TOPIC = "odd-topic"
AWAY = -2
"""A static member leaves for a while."""


def chapter(talk: Dialogue) -> None:
    topic = talk.create(TOPIC, 4)
    talk.create("odd-other", 2)
    coordinator_is_ready(talk, STATIC, PATTERN, BOTH, BAD)
    static_members(talk)
    static_refusals(talk)
    patterns(talk)
    first_requests(talk, topic)
    later_requests(talk, topic)
    strangers(talk)


def static_members(talk: Dialogue) -> None:
    anna = Modern(talk, "anna", STATIC, [TOPIC], instance="desk-a")
    ben = Modern(talk, "ben", STATIC, [TOPIC], instance="desk-b")
    anna.joins("anna joins under the name of her desk")
    ben.joins("ben joins under the name of his")
    settle(talk, 4, anna, ben)
    shown(talk, "two at their desks", STATIC)
    double = Modern(talk, "ben's double", STATIC, [TOPIC], instance="desk-b")
    double.joins("somebody wants ben's desk while he sits there")
    ben.leaves("ben goes away for a while", AWAY)
    shown(talk, "his desk is kept", STATIC)
    anna.beats("anna does not notice")
    ben.beats("ben is not there")
    double.joins("now the desk can be had, with what ben had")
    shown(talk, "somebody else sits at his desk", STATIC)
    ben.beats("ben cannot come back")
    ben.joins("nor join again")
    ben.commits("nor commit", TOPIC, {2: 5})
    double.takes("the double has taken it")
    double.commits("the double commits", TOPIC, {2: 6})
    anna.beats("anna still notices nothing")
    double.leaves("the double leaves for good")
    shown(talk, "the desk is free", STATIC)
    settle(talk, 4, anna)
    again = Modern(talk, "anna", STATIC, [TOPIC], instance="desk-a")
    again.joins("anna restarts under the same id")
    shown(talk, "anna is alone", STATIC)


def static_refusals(talk: Dialogue) -> None:
    carla = Modern(talk, "carla", STATIC, [TOPIC], instance="desk-c")
    carla.epoch = 3
    carla.beats("a desk that is not taken")
    carla.leaves("leaving for a while from it", AWAY)
    carla.leaves("leaving for good from it")
    carla.instance = "desk-a"
    carla.beats("a desk that somebody else has")
    carla.leaves("leaving it for somebody else", AWAY)
    carla.leaves("leaving it for good for somebody else")
    carla.instance = None
    carla.leaves("leaving for a while without a desk", AWAY)


def patterns(talk: Dialogue) -> None:
    anna = Modern(talk, "anna", PATTERN, None, regex="odd-.*")
    anna.joins("anna joins with a pattern, and it takes a moment to look")
    settle(talk, 6, anna)
    shown(talk, "all topics of the pattern are hers", PATTERN)
    ben = Modern(talk, "ben", PATTERN, None, regex="odd-.*")
    ben.joins("ben joins with the same pattern")
    settle(talk, 6, anna, ben)  # who gets which depends on the order of the topics' ids
    anna.beats("anna wishes for nothing", subscribed_topic_regex="")
    settle(talk, 6, anna, ben)
    shown(talk, "ben has everything", PATTERN)
    for regex in ("[", "a{2,1}", "(?<name>x", "*"):
        anna.beats(f"a pattern that is none: {regex}", subscribed_topic_regex=regex)
    bad = Modern(talk, "bad", PATTERN, None, regex="(")
    bad.joins("nobody joins with one")
    anna.beats("anna has not changed")
    ben.beats("ben wishes for another pattern", subscribed_topic_regex="odd-top.c")
    settle(talk, 4, anna, ben)
    shown(talk, "ben has what it says", PATTERN)
    carla = Modern(talk, "carla", BOTH, ["odd-other"], regex="odd-top.c")
    carla.joins("carla joins with a topic and a pattern")
    settle(talk, 6, carla)
    shown(talk, "she has both", BOTH)
    carla.beats("carla is content with the topic", subscribed_topic_regex="")
    settle(talk, 2, carla)
    shown(talk, "she has the topic", BOTH)
    carla.beats("a pattern of which nothing is", subscribed_topic_regex="nowhere-.*")
    settle(talk, 2, carla)


def first_requests(talk: Dialogue, topic: bytes) -> None:
    anna = Modern(talk, "anna", BAD, [TOPIC])

    def refused(title: str, version: int = 1, **more: Any) -> None:
        fields = {**anna.entering(), **more}
        anna.voice.ask(title, "ConsumerGroupHeartbeat", version, fields)

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
    shown(talk, "there is still no group", BAD)
    anna.joins("anna joins, and wishes for nothing", subscribed_topic_names=[])
    shown(talk, "a group that reads nothing", BAD)
    anna.joins("anna has a rack, and wishes", rack_id="rack-1")
    shown(talk, "a group with a rack", BAD)


def later_requests(talk: Dialogue, topic: bytes) -> None:
    anna = Modern(talk, "anna", BAD, [TOPIC])
    anna.joins("anna joins again")
    anna.takes("anna has everything")
    unknown = [{"topic_id": bytes(range(16)), "partitions": [0]}]
    anna.beats("anna owns what is not there", topic_partitions=unknown)
    beyond = [{"topic_id": topic, "partitions": [0, 1, 2, 3, 77]}]
    anna.beats("anna owns too much", topic_partitions=beyond)
    twice = [{"topic_id": topic, "partitions": [0, 0]}]
    anna.beats("anna owns it twice", topic_partitions=twice)
    anna.beats("anna owns nothing", topic_partitions=[])
    anna.takes("anna has everything")
    anna.beats("an assignor that nobody has", server_assignor="alphabetical")
    anna.beats("a long name", subscribed_topic_names=["x" * 300])
    anna.beats("a name that is none", subscribed_topic_names=["not a name!"])
    anna.beats("the same name twice", subscribed_topic_names=[TOPIC, TOPIC])
    shown(talk, "the group is unharmed", BAD)
    anna.leaves("anna leaves")


def strangers(talk: Dialogue) -> None:
    ben = Modern(talk, "ben", BAD, [TOPIC])
    ben.epoch = 1
    ben.beats("a member that is not known")
    ben.group = "odd-unknown"
    ben.beats("a group that is not known")
    ben.leaves("leaving a group that is not known")
    ben.commits("a commit to a group that is not known", TOPIC, {0: 1})
    shown(talk, "no group", "")
    shown(talk, "several groups", "odd-unknown", STATIC, BAD)
    shown(talk, "the same group twice", BAD, BAD)
    shown(talk, "no groups at all")
    classic = {"group_id": STATIC, "generation_id": 1, "member_id": "anna"}
    talk.ask("a classic heartbeat", "Heartbeat", 4, classic)
    talk.ask("a classic sync", "SyncGroup", 5, classic)
    leave = {"group_id": STATIC, "members": [{"member_id": "nobody"}]}
    talk.ask("a classic leave of a stranger", "LeaveGroup", 5, leave)
    leave = {"group_id": STATIC, "members": [{"member_id": "", "group_instance_id": "desk-a"}]}
    talk.ask("a classic leave for anna's desk", "LeaveGroup", 5, leave)
    shown(talk, "her desk is free", STATIC)
