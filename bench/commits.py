"""Offset commits without members: `python -m bench.commits BOOTSTRAP TOPIC CONNECTIONS COMMITS`.

Prints one line of JSON. Every connection commits for a group of its own, one partition per request
and one request in flight, with frames that differ in the offset only. `fill` commits many offsets,
`wait_for_all` returns when a restarted broker has loaded them.
"""

import argparse
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat

from bench.raw import BadAnswer, Wire, Wires, check, frame, not_answered, read, wait_for_groups
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_commit_response import OffsetCommitResponse
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sawlog.protocol.messages.offset_fetch_response import OffsetFetchResponse

_MARK = 0x0102030405060708  # a marker that is replaced by the offset
_OFFSET = struct.Struct(">q")
FILL_CONNECTIONS = 10
GROUPS_A_REQUEST = 100
ASK_AGAIN_S = 0.002


def commit(group: str, topic: str, offsets: dict[int, int]) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition, offset) for partition, offset in offsets.items()
    ]
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)]
    )


def commits(group: str, topic: str, count: int) -> Iterator[bytes]:
    """The frames that commit the offsets from 1 to `count`."""
    before, _, after = frame(commit(group, topic, {0: _MARK})).partition(_OFFSET.pack(_MARK))
    for offset in range(1, count + 1):
        yield b"".join((before, _OFFSET.pack(offset), after))


def check_commit(received: bytes) -> None:
    for topic in read(received, OffsetCommitResponse).topics:
        for partition in topic.partitions:
            check(partition)


def checker() -> Callable[[int, bytes], None]:
    """Decode a response only if it differs from those that were checked before."""
    good: set[bytes] = set()

    def checked(_number: int, received: bytes) -> None:
        if received not in good:
            check_commit(received)
            good.add(received)

    return checked


def rate(bootstrap: str, topic: str, connections: int, commits_in_all: int) -> dict[str, float]:
    """Seconds from the first commit to the last response."""
    wires = Wires(bootstrap, connections)
    groups = [f"{topic}-commits-{number}" for number in range(connections)]
    each = max(1, commits_in_all // connections)
    wait_for_groups(wires.all[0], groups)
    frames = [commits(group, topic, each) for group in groups]
    began, cpu_s = time.perf_counter(), time.process_time()
    wires.pump(frames, checker())
    elapsed_s = time.perf_counter() - began
    driver_s = time.process_time() - cpu_s
    last = _committed(wires.all[0], groups)
    wires.close()
    if any(offsets != [each] for offsets in last.values()):
        raise BadAnswer("a group does not have the offset that was committed last")
    return {"commits": each * connections, "elapsed_s": elapsed_s, "driver_cpu_s": driver_s}


def _committed(wire: Wire, groups: list[str]) -> dict[str, list[int]]:
    """All committed offsets of these groups."""
    found: dict[str, list[int]] = {}
    remaining = iter(groups)
    while some := list(islice(remaining, GROUPS_A_REQUEST)):
        wanted = [OffsetFetchRequestGroup(group, topics=None) for group in some]
        for group in wire.ask(OffsetFetchRequest(groups=wanted), OffsetFetchResponse).groups:
            check(group)
            found[group.group_id] = [
                partition.committed_offset
                for topic in group.topics
                for partition in topic.partitions
            ]
    return found


def group_names(count: int) -> list[str]:
    return [f"offsets-{number}" for number in range(count)]


def fill(bootstrap: str, topic: str, groups: int, partitions: int, times: int = 1) -> None:
    """Commit `times` for every group and partition; the offset is the partition number."""
    wires = Wires(bootstrap, FILL_CONNECTIONS)
    names = group_names(groups)
    wait_for_groups(wires.all[0], names)
    offsets = {partition: partition for partition in range(partitions)}
    frames = [frame(commit(name, topic, offsets)) for name in names]
    repeated = [
        chain.from_iterable(repeat(frames[number::FILL_CONNECTIONS], times))
        for number in range(FILL_CONNECTIONS)
    ]
    wires.pump(repeated, checker())
    wires.close()


def wait_for_all(bootstrap: str, topic: str, groups: int) -> None:
    """Return when OffsetFetch succeeds for every group; it polls one group at a time."""
    wire = Wire(bootstrap)
    topics = [OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    waiting = group_names(groups)
    while waiting:
        while not_answered(wire, [OffsetFetchRequestGroup(waiting[0], topics=topics)]):
            time.sleep(ASK_AGAIN_S)
        wanted = [OffsetFetchRequestGroup(name, topics=topics) for name in waiting]
        waiting = not_answered(wire, wanted)
    wire.close()


def check_all(bootstrap: str, groups: int, partitions: int) -> None:
    """Raise BadAnswer if an offset of `fill` is missing or different."""
    wire = Wire(bootstrap)
    for group, offsets in _committed(wire, group_names(groups)).items():
        if sorted(offsets) != list(range(partitions)):
            raise BadAnswer(f"{group} has {len(offsets)} offsets, not those that it committed")
    wire.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.commits")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("commits", type=int)
    given = parser.parse_args(arguments)
    print(json.dumps(rate(given.bootstrap, given.topic, given.connections, given.commits)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
