"""AddOffsetsToTxn, TxnOffsetCommit, and OffsetFetch with stable offsets."""

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

TOPIC, SECOND = "stable-1", "stable-2"
OLD, NEW, PLAIN, BAD = "stable-old", "stable-new", "stable-plain", "stable-bad"
MEMBERS, MODERN, DELETED = "stable-members", "stable-modern", "stable-deleted"
GROUPS = (OLD, NEW, PLAIN, BAD, MEMBERS, MODERN, DELETED)
TRANSACTION = 1
LAST_VERSION_WITHOUT_BUMP = 4
FIRST_VERSION_WITH_MEMBERS = 3
MOST_METADATA = 4_096
NOBODY = 9_000_000_001


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 3)
    transcript.create_topic(SECOND, 1)
    wait_for_coordinator(transcript, *GROUPS)
    older_versions(transcript)
    newest_version(transcript)
    plain_commits_meanwhile(transcript)
    two_producers(transcript)
    bad_requests(transcript)
    bad_producers(transcript)
    classic_members(transcript)
    consumer_members(transcript)
    deletions(transcript)


class Producer:
    """A transactional producer."""

    def __init__(self, transcript: Transcript, transactional_id: str) -> None:
        self._transcript = transcript
        self.transactional_id = transactional_id
        key = {"coordinator_keys": [transactional_id], "key_type": TRANSACTION}
        transcript.wait_until(
            lambda: (
                not transcript.request_unrecorded("FindCoordinator", 4, key)
                .coordinators[0]
                .error_code
            )
        )
        self.id = self.epoch = -1
        transcript.wait_until(self.init)

    def init(self) -> bool:
        """Get the producer id and the next epoch; False if the coordinator is not ready."""
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": 60_000}
        found = self._transcript.request_unrecorded("InitProducerId", 4, fields)
        self.id, self.epoch = found.producer_id, found.producer_epoch
        return not found.error_code

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def add_offsets(self, title: str, group: str, version: int = 3, **more: Any) -> None:
        fields = {**self.identity, "group_id": group, **more}
        self._transcript.request(title, "AddOffsetsToTxn", version, fields)

    def commit(
        self,
        title: str,
        group: str,
        offsets: dict[int, int],
        version: int = 5,
        topic: str = TOPIC,
        **more: Any,
    ) -> None:
        named = ("committed_metadata", "committed_leader_epoch")
        each = {name: more.pop(name) for name in named if name in more}
        fields = {**self.identity, **commit_fields(group, topic, offsets, **each), **more}
        if version < FIRST_VERSION_WITH_MEMBERS:
            del fields["member_id"], fields["generation_id_or_member_epoch"]
        self._transcript.request(title, "TxnOffsetCommit", version, fields)

    def end(self, title: str, *, commits: bool, version: int = 5) -> None:
        """End the transaction, and wait until its markers are written."""
        fields = {**self.identity, "committed": commits}
        ended = self._transcript.request(title, "EndTxn", version, fields)
        if version > LAST_VERSION_WITHOUT_BUMP and not ended.error_code:
            self.id, self.epoch = ended.producer_id, ended.producer_epoch
        self._transcript.wait_until(self._is_complete)

    def _is_complete(self) -> bool:
        fields = {"transactional_ids": [self.transactional_id]}
        (found,) = self._transcript.request_unrecorded(
            "DescribeTransactions", 0, fields
        ).transaction_states
        return found.transaction_state in {"CompleteCommit", "CompleteAbort"}


def wanted(topic: str, *partitions: int) -> dict[str, Any]:
    return {"name": topic, "partition_indexes": list(partitions)}


def fetch(transcript: Transcript, title: str, group: str) -> None:
    """Fetch the offsets of the first topic: all, and the stable ones."""
    asked = {"group_id": group, "topics": [wanted(TOPIC, 0, 1)]}
    transcript.request(title, "OffsetFetch", 7, asked)
    stable = {**asked, "require_stable": True}
    transcript.request(f"{title}, stable ones", "OffsetFetch", 7, stable)


def older_versions(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-old")
    producer.commit("an offset of a partition that was not added", OLD, {0: 1}, version=3)
    producer.commit("the same in the next version", OLD, {0: 1}, version=4)
    for version in range(5):
        producer.add_offsets("the group's partition is added", OLD, version)
        title = "an offset in the transaction"
        producer.commit(title, OLD, {0: 10 + version}, version, committed_metadata=f"v{version}")
        fetch(transcript, "a pending offset", OLD)
        producer.end("the transaction is committed", commits=True, version=version)
        fetch(transcript, "a committed offset", OLD)
    producer.add_offsets("the group's partition is added again", OLD)
    producer.commit("an offset in the transaction", OLD, {0: 99, 1: 99}, version=3)
    producer.end("the transaction is aborted", commits=False, version=3)
    fetch(transcript, "the offsets before the transaction", OLD)


def newest_version(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-new")
    fetch(transcript, "no offsets", NEW)
    producer.commit("an offset in a new transaction", NEW, {0: 5}, committed_leader_epoch=0)
    fetch(transcript, "a pending offset", NEW)
    producer.commit("a second one", NEW, {0: 6, 1: 7}, committed_metadata="more")
    every = {"group_id": NEW, "topics": None, "require_stable": True}
    transcript.request("all stable offsets", "OffsetFetch", 7, every)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the committed offsets", NEW)
    producer.commit("an offset in the next transaction", NEW, {1: 8})
    transcript.request("all stable offsets", "OffsetFetch", 7, every)
    several = {
        "groups": [
            {"group_id": NEW, "topics": [wanted(TOPIC, 0, 1)]},
            {"group_id": OLD, "topics": [wanted(TOPIC, 0, 1)]},
        ]
    }
    for stable in (False, True):
        transcript.request("two groups", "OffsetFetch", 9, {**several, "require_stable": stable})
    producer.end("the transaction is aborted", commits=False)
    fetch(transcript, "the offsets before the transaction", NEW)


def plain_commits_meanwhile(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-plain")
    producer.commit("offsets in a transaction", PLAIN, {0: 20, 1: 20})
    transcript.request(
        "a plain commit for one of the partitions",
        "OffsetCommit",
        9,
        commit_fields(PLAIN, TOPIC, {0: 3}),
    )
    fetch(transcript, "the plain offset", PLAIN)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the later commit of each partition", PLAIN)


def two_producers(transcript: Transcript) -> None:
    first, second = Producer(transcript, "t-first"), Producer(transcript, "t-second")
    first.commit("an offset of the first producer", PLAIN, {0: 31, 1: 31})
    second.commit("an offset of the second producer", PLAIN, {0: 32})
    fields = {**second.identity, "committed": True}
    transcript.request("the second one is committed first", "EndTxn", 5, fields)
    asked = {"group_id": PLAIN, "topics": [wanted(TOPIC, 0)]}
    transcript.wait_until(
        lambda: (
            transcript.request_unrecorded("OffsetFetch", 7, asked)
            .topics[0]
            .partitions[0]
            .committed_offset
            == 32
        )
    )
    fetch(transcript, "the offset of the second producer", PLAIN)
    first.end("the first one is committed", commits=True)
    fetch(transcript, "the later commit of each partition", PLAIN)


def bad_requests(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-bad")
    one = {"partition_index": 0, "committed_offset": 1}

    def commit_invalid(title: str, version: int = 5, **more: Any) -> None:
        producer.commit(title, BAD, {0: 1}, version, **more)

    def topics(name: str, *partitions: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "partitions": list(partitions)}]

    commit_invalid("an unknown topic", topics=topics("nowhere", one))
    commit_invalid("no topics", topics=[])
    commit_invalid("a topic without partitions", topics=topics(TOPIC))
    commit_invalid("an empty group id", group_id="")
    commit_invalid("an empty group id in an old version", 2, group_id="")
    commit_invalid("a member of an unknown group", member_id="m", generation_id_or_member_epoch=1)
    commit_invalid("a generation without a member", generation_id_or_member_epoch=1)
    commit_invalid("an unknown partition", topics=topics(TOPIC, one, {**one, "partition_index": 7}))
    commit_invalid("a negative partition", topics=topics(TOPIC, {**one, "partition_index": -1}))
    long = {**one, "partition_index": 1, "committed_metadata": "x" * (MOST_METADATA + 1)}
    commit_invalid("too long metadata", topics=topics(TOPIC, one, long))
    commit_invalid("null metadata", topics=topics(TOPIC, {**one, "committed_metadata": None}))
    commit_invalid("a member without a generation", member_id="m")
    commit_invalid("an instance id", group_instance_id="desk")
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the committed offsets", BAD)


def bad_producers(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-wrong")
    for version in (2, 3, 4, 5):
        producer.commit("an older epoch", BAD, {0: 9}, version, producer_epoch=producer.epoch - 1)
        producer.commit("a later epoch", BAD, {0: 9}, version, producer_epoch=producer.epoch + 1)
        producer.commit("another producer id", BAD, {0: 9}, version, producer_id=NOBODY)
        producer.commit(
            "an unknown transactional id", BAD, {0: 9}, version, transactional_id="t-unknown"
        )
        producer.commit("an empty transactional id", BAD, {0: 9}, version, transactional_id="")
    for version in (0, 2, 4):
        wrong = {"producer_epoch": producer.epoch + 1}
        producer.add_offsets("AddOffsetsToTxn in a later epoch", BAD, version, **wrong)
        producer.add_offsets("of another producer id", BAD, version, producer_id=NOBODY)
        producer.add_offsets(
            "of an unknown transactional id", BAD, version, transactional_id="t-unknown"
        )
        producer.add_offsets("of an empty transactional id", BAD, version, transactional_id="")
        producer.add_offsets("of an empty group id", "", version)
    old_epoch = producer.epoch
    transcript.wait_until(producer.init)
    producer.commit("a fenced producer", BAD, {0: 9}, 3, producer_epoch=old_epoch)
    producer.commit("a fenced producer", BAD, {0: 9}, 5, producer_epoch=old_epoch)
    fetch(transcript, "the committed offsets", BAD)


def classic_members(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-members")
    anna = ClassicMember(transcript, "anna", MEMBERS, subscription(TOPIC))
    anna.obtain_member_id()
    anna.join("anna joins")
    named = {"member_id": anna.id, "generation_id_or_member_epoch": anna.generation}
    producer.commit("a commit during the rebalance", MEMBERS, {0: 1}, **named)
    producer.commit("a commit without a member", MEMBERS, {0: 2})
    anna.sync("anna assigns all partitions to herself", {anna.id: assignment({TOPIC: [0, 1, 2]})})
    producer.commit("a commit of anna", MEMBERS, {0: 3}, **named)
    producer.commit("a commit of anna in version 3", MEMBERS, {0: 4}, 3, **named)
    producer.commit("a commit without a member in version 2", MEMBERS, {0: 5}, 2)
    for step in (-1, 1):
        other = {**named, "generation_id_or_member_epoch": anna.generation + step}
        producer.commit("another generation", MEMBERS, {0: 99}, **other)
    producer.commit("another member", MEMBERS, {0: 99}, **{**named, "member_id": "nobody"})
    producer.commit("an unknown instance id", MEMBERS, {0: 99}, **named, group_instance_id="desk")
    nameless = {"member_id": anna.id, "generation_id_or_member_epoch": -1}
    producer.commit("a member without a generation", MEMBERS, {0: 99}, **nameless)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the committed offsets", MEMBERS)
    anna.leave("anna leaves")


def consumer_members(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-modern")
    ben = ConsumerMember(transcript, "ben", MODERN, [TOPIC])
    ben.join("ben joins with the consumer protocol")
    named = {"member_id": "ben", "generation_id_or_member_epoch": ben.epoch}
    producer.commit("a commit of ben", MODERN, {0: 1}, **named)
    producer.commit("a commit of ben in version 3", MODERN, {0: 2}, 3, **named)
    producer.commit("a commit without a member", MODERN, {1: 3})
    for step in (-1, 1):
        other = {**named, "generation_id_or_member_epoch": ben.epoch + step}
        producer.commit("another epoch", MODERN, {0: 99}, **other)
    producer.commit("another member", MODERN, {0: 99}, **{**named, "member_id": "nobody"})
    nameless = {"member_id": "ben", "generation_id_or_member_epoch": -1}
    producer.commit("a member without an epoch", MODERN, {0: 99}, **nameless)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the committed offsets", MODERN)
    ben.leave("ben leaves")


def deletions(transcript: Transcript) -> None:
    producer = Producer(transcript, "t-deleted")

    def delete_offset() -> None:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        fields = {"group_id": DELETED, "topics": topics}
        transcript.request("a pending offset is deleted", "OffsetDelete", 0, fields)

    producer.commit("offsets in a transaction", DELETED, {0: 1, 1: 2})
    described = {"groups": [DELETED]}
    transcript.request("a group with pending offsets", "DescribeGroups", 5, described)
    delete_offset()
    fetch(transcript, "the pending offset that is left", DELETED)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "the committed offset", DELETED)
    producer.commit("offsets in the next transaction", DELETED, {0: 3, 1: 4})
    deleted = {"groups_names": [DELETED]}
    transcript.request("a group with pending offsets is deleted", "DeleteGroups", 2, deleted)
    producer.end("the transaction is committed", commits=True)
    fetch(transcript, "nothing is left", DELETED)
