"""Rebalances of groups with many members: `python -m bench.members classic|consumer ...`.

Prints one line of JSON. One thread drives all members, each with a connection of its own, and
does not wait between requests. The measured time starts with the last JoinGroup (classic) or the
last joining heartbeat (consumer protocol) and ends with the last assignment.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

from bench.classic_members import ClassicGroup
from bench.consumer_members import ConsumerGroup
from bench.raw import Wires, wait_for_groups


def classic(
    bootstrap: str, topic: str, members: int, partitions: int, rebalances: int
) -> list[float]:
    """The seconds of each rebalance; the same members rejoin."""
    wires = Wires(bootstrap, members)
    group = ClassicGroup(wires, f"{topic}-members", topic, partitions)
    wait_for_groups(wires.all[0], [group.id])
    group.gather()
    times_s = [group.rebalance() for _ in range(rebalances)]
    group.leave()
    wires.close()
    return times_s


def consumer(
    bootstrap: str, topic: str, members: int, partitions: int, rebalances: int
) -> list[float]:
    """The seconds of each rebalance; each has a new group."""
    wires = Wires(bootstrap, members)
    groups = [
        ConsumerGroup(wires, f"{topic}-members-{number}", topic, partitions)
        for number in range(rebalances)
    ]
    wait_for_groups(wires.all[0], [group.id for group in groups])
    times_s = []
    for group in groups:
        times_s.append(group.rebalance())
        group.leave()
    wires.close()
    return times_s


PROTOCOLS: dict[str, Callable[[str, str, int, int, int], list[float]]] = {
    "classic": classic,
    "consumer": consumer,
}


def summary(times_s: list[float]) -> dict[str, float]:
    return {
        "rebalances": len(times_s),
        "median_ms": statistics.median(times_s) * 1000,
        "fastest_ms": min(times_s) * 1000,
        "slowest_ms": max(times_s) * 1000,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.members")
    parser.add_argument("protocol", choices=list(PROTOCOLS))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    for number in ("members", "partitions", "rebalances"):
        parser.add_argument(number, type=int)
    given = parser.parse_args(arguments)
    began = time.process_time()
    times_s = PROTOCOLS[given.protocol](
        given.bootstrap, given.topic, given.members, given.partitions, given.rebalances
    )
    print(json.dumps({**summary(times_s), "driver_cpu_s": time.process_time() - began}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
