"""OffsetCommit, OffsetFetch and OffsetDelete, by members and by clients outside the group."""

from typing import Any

from transcripts.scenarios.group_members import (
    ClassicMember,
    ConsumerMember,
    assignment,
    commit_fields,
    subscription,
    wait_for_coordinator,
)
from transcripts.transcript import Transcript

GROUP, OTHER, MEMBERS, MODERN = "offsets-simple", "offsets-other", "offsets-old", "offsets-new"
TOPIC, SECOND = "committed-1", "committed-2"
UNKNOWN_ID = bytes(range(16))
MOST_METADATA = 4_096


def run(transcript: Transcript) -> None:
    first = transcript.create_topic(TOPIC, 3)
    second = transcript.create_topic(SECOND, 1)
    wait_for_coordinator(transcript, GROUP, OTHER, MEMBERS, MODERN, "")
    versions(transcript, first)
    outside_the_group(transcript)
    bad_commits(transcript, first)
    topic_ids(transcript, first, second)
    several(transcript)
    bad_fetches(transcript, first)
    members(transcript)
    consumer_group(transcript, first)
    deleting(transcript)
    transcript.request_unrecorded(
        "DeleteGroups", 2, {"groups_names": [""]}
    )  # other scenarios describe the group ""


def fetch_all(
    transcript: Transcript, title: str, group: str, version: int = 7, **more: Any
) -> None:
    transcript.request(title, "OffsetFetch", version, {"group_id": group, "topics": None, **more})


def wanted(topic: str, *partitions: int) -> dict[str, Any]:
    return {"name": topic, "partition_indexes": list(partitions)}


def versions(transcript: Transcript, first: bytes) -> None:
    transcript.request(
        "no committed offsets", "OffsetFetch", 7, {"group_id": GROUP, "topics": None}
    )
    asked = {"group_id": GROUP, "topics": [wanted(TOPIC, 0)]}
    transcript.request("no committed offsets of this topic", "OffsetFetch", 7, asked)
    for version in range(2, 10):
        fields = commit_fields(GROUP, TOPIC, {0: version * 10}, committed_metadata=f"v{version}")
        transcript.request("a commit from outside the group", "OffsetCommit", version, fields)
        if version <= 7:
            transcript.request("the committed offset", "OffsetFetch", version, asked)
        else:
            groups = {"groups": [{"group_id": GROUP, "topics": [wanted(TOPIC, 0)]}]}
            transcript.request("the committed offset", "OffsetFetch", version, groups)
    transcript.request("the committed offset, version 1", "OffsetFetch", 1, asked)
    by_id = commit_fields(GROUP, "", {0: 100}, committed_metadata="v10")
    by_id["topics"][0] |= {"topic_id": first}
    transcript.request("a commit with a topic id", "OffsetCommit", 10, by_id)
    topics = [{"topic_id": first, "partition_indexes": [0]}]
    groups = {"groups": [{"group_id": GROUP, "topics": topics}]}
    transcript.request("the committed offset, with a topic id", "OffsetFetch", 10, groups)


def outside_the_group(transcript: Transcript) -> None:
    transcript.request(
        "a commit with a leader epoch",
        "OffsetCommit",
        9,
        commit_fields(GROUP, TOPIC, {1: 5, 2: 6}, committed_leader_epoch=3, committed_metadata=""),
    )
    null = commit_fields(GROUP, SECOND, {0: 7}, committed_metadata=None)
    transcript.request("a commit with null metadata", "OffsetCommit", 9, null)
    fetch_all(transcript, "all committed offsets", GROUP)
    transcript.request("a lower offset", "OffsetCommit", 9, commit_fields(GROUP, TOPIC, {1: 4}))
    transcript.request(
        "an offset beyond the log end", "OffsetCommit", 9, commit_fields(GROUP, TOPIC, {2: 1 << 62})
    )
    transcript.request(
        "a negative offset", "OffsetCommit", 9, commit_fields(GROUP, SECOND, {0: -5})
    )
    kept = commit_fields(GROUP, SECOND, {0: 8}) | {"retention_time_ms": 1_000}
    transcript.request("a commit with a retention time", "OffsetCommit", 4, kept)
    fetch_all(transcript, "all committed offsets", GROUP)
    fetch_all(transcript, "all stable offsets", GROUP, require_stable=True)
    asked = {"group_id": GROUP, "topics": [wanted(TOPIC, 2, 0, 9), wanted("nowhere", 0)]}
    transcript.request("known and unknown partitions", "OffsetFetch", 7, asked)
    asked = {"group_id": GROUP, "topics": [wanted(TOPIC, 0), wanted(TOPIC, 0, 0)]}
    transcript.request("the same partition three times", "OffsetFetch", 5, asked)
    transcript.request("no topics", "OffsetFetch", 7, {"group_id": GROUP, "topics": []})


def bad_commits(transcript: Transcript, first: bytes) -> None:
    def commit_invalid(title: str, version: int = 9, **more: Any) -> None:
        fields = {**commit_fields(OTHER, TOPIC, {0: 1}), **more}
        transcript.request(title, "OffsetCommit", version, fields)

    def topics(name: str, *partitions: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "partitions": list(partitions)}]

    one = {"partition_index": 0, "committed_offset": 1}
    commit_invalid(
        "a member of an unknown group", member_id="nobody", generation_id_or_member_epoch=1
    )
    commit_invalid("a generation without a member", generation_id_or_member_epoch=3)
    commit_invalid("a member without a generation", member_id="nobody")
    commit_invalid("an instance id without a member id", group_instance_id="desk-a")
    commit_invalid("an empty group id", group_id="")
    commit_invalid("no topics", topics=[])
    commit_invalid("a topic without partitions", topics=topics(TOPIC))
    commit_invalid("an unknown topic", topics=topics("nowhere", one))
    commit_invalid("an unknown partition", topics=topics(TOPIC, one, {**one, "partition_index": 7}))
    commit_invalid("a negative partition", topics=topics(TOPIC, {**one, "partition_index": -1}))
    commit_invalid(
        "the same partition twice", topics=topics(TOPIC, one, {**one, "committed_offset": 2})
    )
    most = {**one, "committed_metadata": "x" * MOST_METADATA}
    more = {**one, "partition_index": 1, "committed_metadata": "x" * (MOST_METADATA + 1)}
    commit_invalid("metadata of the maximum length, and longer", topics=topics(TOPIC, most, more))
    wide = {**one, "partition_index": 1, "committed_metadata": "ü" * MOST_METADATA}
    commit_invalid("metadata of two-byte characters", topics=topics(TOPIC, wide))
    unknown = [{"topic_id": UNKNOWN_ID, "partitions": [one]}]
    known = [{"topic_id": first, "partitions": [{**one, "partition_index": 7}]}]
    commit_invalid("an unknown id, and an unknown partition", 10, topics=unknown + known)
    commit_invalid("no topic id", 10, topics=[{"partitions": [one]}])
    fetch_all(transcript, "the committed offsets", OTHER)


def topic_ids(transcript: Transcript, first: bytes, second: bytes) -> None:
    def fetch_by_id(title: str, *topics: dict[str, Any]) -> None:
        groups = {"groups": [{"group_id": GROUP, "topics": list(topics)}]}
        transcript.request(title, "OffsetFetch", 10, groups)

    one = {"topic_id": first, "partition_indexes": [0, 1, 7]}
    fetch_by_id("two topics by id", one, {"topic_id": second, "partition_indexes": [0]})
    fetch_by_id("an unknown topic id", one, {"topic_id": UNKNOWN_ID, "partition_indexes": [0]})
    fetch_by_id("no topic id", {"partition_indexes": [0]})
    everything = {"groups": [{"group_id": GROUP, "topics": None}]}
    transcript.request("all committed offsets, with topic ids", "OffsetFetch", 10, everything)


def several(transcript: Transcript) -> None:
    groups = [
        {"group_id": GROUP, "topics": [wanted(TOPIC, 0), wanted(SECOND, 0)]},
        {"group_id": OTHER, "topics": [wanted(TOPIC, 0)]},
        {"group_id": "offsets-nobody", "topics": None},
    ]
    for version in (8, 9):
        transcript.request("three groups", "OffsetFetch", version, {"groups": groups})
    stable = {"groups": groups, "require_stable": True}
    transcript.request("three groups, stable", "OffsetFetch", 9, stable)
    transcript.request("the same group twice", "OffsetFetch", 8, {"groups": [groups[1], groups[1]]})
    transcript.request("no groups", "OffsetFetch", 8, {"groups": []})


def bad_fetches(transcript: Transcript, first: bytes) -> None:
    fetch_all(transcript, "an empty group id", "")
    one = {"groups": [{"group_id": "", "topics": None}]}
    transcript.request("an empty group id in a list", "OffsetFetch", 8, one)
    member = {"group_id": GROUP, "topics": None, "member_id": "nobody", "member_epoch": 1}
    transcript.request(
        "a member of a group without members", "OffsetFetch", 9, {"groups": [member]}
    )
    member["group_id"] = "offsets-nobody"
    transcript.request("a member of an unknown group", "OffsetFetch", 9, {"groups": [member]})
    member["topics"] = [wanted(TOPIC, 0)]
    transcript.request(
        "a member of an unknown group, one topic", "OffsetFetch", 9, {"groups": [member]}
    )


def members(transcript: Transcript) -> None:
    anna = ClassicMember(transcript, "anna", MEMBERS, subscription(TOPIC))
    anna.obtain_member_id()
    anna.commit("a commit before anna joins", TOPIC, {0: 1})
    simple = {"member_id": "", "generation_id_or_member_epoch": -1}
    anna.commit("a commit from outside the group", TOPIC, {0: 2}, **simple)
    anna.join("anna joins")
    anna.commit("a commit in CompletingRebalance", TOPIC, {0: 3})
    anna.commit("a commit from outside the group, in CompletingRebalance", TOPIC, {0: 3}, **simple)
    anna.sync("anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2]})})
    anna.commit("anna commits", TOPIC, {0: 4})
    anna.commit("anna commits with version 5", TOPIC, {0: 5}, version=5)
    anna.commit("a commit from outside the group", TOPIC, {0: 99}, **simple)
    old = {"generation_id_or_member_epoch": anna.generation - 1}
    anna.commit("the previous generation", TOPIC, {0: 99}, **old)
    new = {"generation_id_or_member_epoch": anna.generation + 1}
    anna.commit("the next generation", TOPIC, {0: 99}, **new)
    anna.commit("no generation", TOPIC, {0: 99}, generation_id_or_member_epoch=-1)
    anna.commit("another member id", TOPIC, {0: 99}, member_id="nobody")
    anna.commit("an unknown instance id", TOPIC, {0: 99}, group_instance_id="desk-a")
    unread = [{"name": SECOND, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    anna.commit("a topic without subscribers", TOPIC, {}, topics=unread)
    fetch_all(transcript, "the committed offsets", MEMBERS)
    anna.leave("anna leaves")
    anna.commit("a commit of anna fails", TOPIC, {0: 99})
    anna.commit("a commit from outside the group succeeds", TOPIC, {0: 6}, **simple)


def consumer_group(transcript: Transcript, first: bytes) -> None:
    ben = ConsumerMember(transcript, "ben", MODERN, [TOPIC])
    ben.join("ben joins with the consumer protocol")
    by_id = commit_fields(MODERN, "", {0: 5}, "ben", ben.epoch)
    by_id["topics"][0] |= {"topic_id": first}
    ben.client.request("ben commits with a topic id", "OffsetCommit", 10, by_id)
    for version in (8, 7):
        fields = commit_fields(MODERN, TOPIC, {0: 6}, "ben", ben.epoch)
        ben.client.request("ben commits with an old version", "OffsetCommit", version, fields)
    fields = commit_fields(MODERN, TOPIC, {0: 7}, "ben", ben.epoch + 1)
    ben.client.request("a wrong epoch in an old version", "OffsetCommit", 8, fields)
    fetch_all(transcript, "the committed offsets", MODERN)
    ben.leave("ben leaves")


def deleting(transcript: Transcript) -> None:
    def deleted(title: str, group: str, topic: str, *partitions: int) -> None:
        entries = [{"partition_index": index} for index in partitions]
        fields = {"group_id": group, "topics": [{"name": topic, "partitions": entries}]}
        transcript.request(title, "OffsetDelete", 0, fields)

    deleted("an offset is deleted", GROUP, TOPIC, 1)
    deleted("a second deletion fails", GROUP, TOPIC, 1)
    deleted("unknown partitions", GROUP, TOPIC, 0, 7)
    deleted("an unknown topic", GROUP, "nowhere", 0)
    deleted("an unknown group", "offsets-nobody", TOPIC, 0)
    deleted("an empty group id", "", TOPIC, 0)
    transcript.request("no topics", "OffsetDelete", 0, {"group_id": GROUP, "topics": []})
    fetch_all(transcript, "the remaining offsets", GROUP)
    carla = ClassicMember(transcript, "carla", MEMBERS, subscription(SECOND), version=3)
    carla.join("carla joins and subscribes to another topic")
    carla.sync("carla assigns all partitions to herself", {carla.id: assignment({SECOND: [0]})})
    deleted("an offset of a subscribed topic", MEMBERS, SECOND, 0)
    deleted("an offset of a topic without subscribers", MEMBERS, TOPIC, 0)
    fetch_all(transcript, "the remaining offsets", MEMBERS)
    topic = {"topic_names": [SECOND], "timeout_ms": 10_000}
    transcript.request_unrecorded("DeleteTopics", 5, topic)
    transcript.wait_until(lambda: len(fetch_unrecorded(transcript, GROUP)) == 1)
    fetch_all(transcript, "the offsets of a deleted topic are gone", GROUP)


def fetch_unrecorded(transcript: Transcript, group: str) -> list[Any]:
    topics: list[Any] = transcript.request_unrecorded(
        "OffsetFetch", 7, {"group_id": group, "topics": None}
    ).topics
    return topics
