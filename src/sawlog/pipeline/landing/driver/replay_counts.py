"""How a table tells that a replay went over it, and its dead letters too.

A replay changes two tables, and no commit covers both. It sets back the dead letters first and the
table second, and counts itself in each. So whoever sees two counts that differ knows that one is
under way, or died in between, and must not land anything until it was run again. The dead letters
know from where on, too: when it is run again, `--from 2h` may mean less.
"""

from collections.abc import Mapping

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of
from sawlog.pipeline.delta.table import Table

_REPLAYS = partition_of("(replays)", 0)  # no topic can be called so
_FROM = "(replay)"  # nor have a name that begins with this
_NOT_THIS_TIME = -1


def replay_count_id(group: str) -> str:
    return application_id(group, _REPLAYS)


def replay_count(group: str, versions: Mapping[str, int]) -> int:
    """How many replays a table has seen, by the versions of its applications."""
    return versions.get(replay_count_id(group), 0)


def replay_transactions(
    group: str, count: int, starts: Mapping[TopicPartition, int], versions: Mapping[str, int]
) -> dict[str, int]:
    """What a replay from these offsets on leaves in the dead letters, whose versions are given."""
    wanted = {**dict.fromkeys(replay_starts(group, versions), _NOT_THIS_TIME), **starts}
    marks = {
        application_id(group, partition_of(_FROM + tp.topic, tp.partition)): start
        for tp, start in sorted(wanted.items())
    }
    return {replay_count_id(group): count, **marks}


def replay_starts(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """From where on the last replay set the dead letters back."""
    return {
        partition_of(tp.topic.removeprefix(_FROM), tp.partition): start
        for tp, start in notes_of(group, versions).items()
        if tp.topic.startswith(_FROM) and start != _NOT_THIS_TIME
    }


def same_replay_count(path: str, group: str) -> dict[TopicPartition, int]:
    """For a table that is made beside one that is there already, because it was deleted: a mark
    that says as many replays as that one's does.
    """
    if not Table.exists(path):
        return {}
    count = replay_count(group, Table.open(path).snapshot.transactions)
    return {_REPLAYS: count} if count else {}
