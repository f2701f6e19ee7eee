"""Replay counts, by which a landing notices a replay of its table.

A replay commits to two tables: the dead letters first, the table second. It increments a count in
each. Different counts mean that a replay is running or died between the commits; nothing may land
until it is run again. The dead letters also store the start offsets, because a repeated `--from 2h`
would mean a later time.
"""

from collections.abc import Mapping

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of

_REPLAYS = partition_of("(replays)", 0)  # not a valid topic name
_FROM = "(replay)"  # nor a prefix of one
_NOT_THIS_TIME = -1


def replay_count_id(group: str) -> str:
    return application_id(group, _REPLAYS)


def replay_count(group: str, versions: Mapping[str, int]) -> int:
    """The number of replays of a table, from the versions of its `txn` actions."""
    return versions.get(replay_count_id(group), 0)


def replay_transactions(
    group: str, count: int, starts: Mapping[TopicPartition, int], versions: Mapping[str, int]
) -> dict[str, int]:
    """The `txn` versions that a replay from these offsets stores in the dead letters."""
    wanted = {**dict.fromkeys(replay_starts(group, versions), _NOT_THIS_TIME), **starts}
    marks = {
        application_id(group, partition_of(_FROM + tp.topic, tp.partition)): start
        for tp, start in sorted(wanted.items())
    }
    return {replay_count_id(group): count, **marks}


def replay_starts(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The start offsets of the last replay."""
    return {
        partition_of(tp.topic.removeprefix(_FROM), tp.partition): start
        for tp, start in notes_of(group, versions).items()
        if tp.topic.startswith(_FROM) and start != _NOT_THIS_TIME
    }


def same_replay_count(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The replay count of a table, for the table that is created beside it again."""
    count = replay_count(group, versions)
    return {_REPLAYS: count} if count else {}
