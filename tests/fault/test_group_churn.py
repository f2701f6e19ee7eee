"""Group members join, leave, are killed and paused, and the broker is killed.

Every record is processed, no partition has two owners, and fenced members commit nothing.
"""

import threading
import time
from collections import deque
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from support.client_libraries.confluent_library import Confluent
from support.group_consumers.consumer_process import ConsumerProcess
from support.group_consumers.event_journal import (
    DIED,
    RESUMED,
    Event,
    EventJournal,
    owned_partitions,
)
from support.group_consumers.group_checks import (
    decreasing_commits,
    failures,
    fenced_commits,
    overlaps,
    removals,
    unread,
)
from support.group_consumers.java_consumer import CLOCK_S, JavaConsumer
from support.server.broker_process import SawlogServer
from support.tiers import rounds

TOPIC = "churned"
PARTITIONS = 6
KINDS = (
    "confluent-range",
    "confluent-cooperative",
    "confluent-consumer",
    "aiokafka-range",
    "kafka-python-range",
)
REUSES_OFFSETS = ("kafka-python-range",)
"""kafka-python 3.0 keeps a request for committed offsets that was pending when its poll ended, and
takes the result for the same partitions of a later generation: after a pause it reads and commits
from an offset that others have passed (`ConsumerCoordinator._offset_fetch_futures`)."""
OURS = ("sawlog-range", "sawlog-cooperative", "sawlog-consumer")
PROCESSES, MEMBERS_PER_PROCESS = 2, 2  # of each kind: twenty members in total
PAUSED_S = 9
FIRST_FAULTS = 2  # a kill, then a pause
PAUSE_S = 0.4
READ_ALL_S = 120
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}


class NumberedRecords:
    """An idempotent producer that runs through broker failures; record n has offset n."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        backoff = {"reconnect.backoff.max.ms": 200, "linger.ms": 5}
        self._producer = Producer({**settings, **backoff, "error_cb": lambda _: None})
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        self.wrong: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            for partition in self.counts:
                number = self.counts[partition]
                self._producer.produce(
                    TOPIC, b"%d" % number, partition=partition, on_delivery=self._delivered
                )
                self.counts[partition] += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None or int(message.value()) != message.offset():  # type: ignore[attr-defined]
            self.wrong.append(f"{error}: {message}")

    def finish(self) -> dict[int, int]:
        """Stop producing and return the end offset of each partition."""
        self._is_over.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0
        assert self.wrong == []
        return dict(self.counts)


class ChurnedGroup:
    """Members of one kind in a few processes, with random faults."""

    def __init__(self, server: SawlogServer, kind: str, random: Random) -> None:
        self.kind = kind
        self.name = f"group-of-{kind}"
        self.journal = EventJournal()
        self._server = server
        self._random = random
        self._count = 0
        self._paused: list[tuple[float, ConsumerProcess]] = []
        self._processes: list[ConsumerProcess] = []
        self._first_faults = ["pause", "kill"]

    def start_process(self) -> None:
        process = ConsumerProcess(self.journal, self._server.bootstrap)
        self._processes.append(process)
        for _ in range(MEMBERS_PER_PROCESS):
            self._join(process)

    def _join(self, process: ConsumerProcess) -> None:
        self._count += 1
        process.join(self.kind, self.name, TOPIC, f"{self.kind} {self._count}")

    def inject_fault(self) -> None:
        self.resume_paused()
        paused = [process for _, process in self._paused]
        running = [process for process in self._processes if process not in paused]
        if not running:
            return
        process = self._random.choice(running)
        fault = self._choose(len(running))
        if fault == "kill":
            self._processes.remove(process)
            process.kill()
            self.start_process()
        elif fault == "pause":
            process.pause()
            self._paused.append((time.monotonic() + PAUSED_S, process))
        elif fault == "leave" and process.members:
            process.leave(self._random.choice(process.members))
        elif len(process.members) < 2 * MEMBERS_PER_PROCESS:
            self._join(process)

    def _choose(self, running: int) -> str:
        """Choose a fault: a kill and a pause come first, and one process always keeps running."""
        if running > 1 and self._first_faults:
            return self._first_faults.pop()
        weights = {"kill": 15, "pause": 10} if running > 1 else {}
        weights |= {"leave": 35, "join": 40}
        return self._random.choices(list(weights), list(weights.values()))[0]

    def resume_paused(self, *, everyone: bool = False) -> None:
        now = time.monotonic()
        for until, process in list(self._paused):
            if everyone or until <= now:
                self._paused.remove((until, process))
                process.resume()

    def settle(self, ends: dict[int, int]) -> None:
        """Wait until at least one member has read everything, then make all leave."""
        self.resume_paused(everyone=True)
        if not any(process.members for process in self._processes):
            self._join(self._processes[0])
        self.journal.wait_until(lambda events: not unread(events, ends), READ_ALL_S)
        self.stop()

    def stop(self) -> None:
        for process in self._processes:
            process.stop()
        self._processes = []

    def kill(self) -> None:
        for process in self._processes:
            process.kill()


def check(events: list[Event], tolerance_s: float = 0.0) -> None:
    assert failures(events) == []
    assert overlaps(events, tolerance_s) == []
    assert fenced_commits(events) == []


@pytest.mark.parametrize("length_s", rounds(long=24, soak=600))
@pytest.mark.parametrize("kinds", [KINDS, OURS], ids=["others", "ours"])
def test_groups_survive_joins_leaves_kills_and_pauses(
    tmp_path: Path, random_seed: int, kinds: tuple[str, ...], length_s: float
) -> None:
    random = Random(random_seed)
    server = SawlogServer(tmp_path, SETTINGS)
    library = Confluent(server.bootstrap)
    library.create_topic(TOPIC, PARTITIONS)
    groups = [ChurnedGroup(server, kind, random) for kind in kinds]
    try:
        records = NumberedRecords(server.bootstrap)
        for group in groups:
            for _ in range(PROCESSES):
                group.start_process()
        lines = churn(server, groups, random, length_s)
        ends = records.finish()
        for group in groups:
            group.settle(ends)
        for group in groups:
            events = group.journal.events
            check([*events, *removals(events, group.name, lines + server.process.lines)])
            assert {DIED, RESUMED} <= {event.kind for event in group.journal.events}
            if group.kind not in REUSES_OFFSETS:
                assert decreasing_commits(library, group.name, TOPIC, events) == []
        server.stop()
    finally:
        for group in groups:
            group.kill()
        server.kill()


def churn(
    server: SawlogServer, groups: list[ChurnedGroup], random: Random, length_s: float
) -> list[str]:
    """Inject faults, with a kill of the broker in the middle; its log lines up to then.

    Each group has its first faults early, so that a pause ends within a short run.
    """
    lines: list[str] = []
    start = time.monotonic()
    pause = threading.Event()
    was_killed = False
    first = deque(groups * FIRST_FAULTS)
    while (passed := time.monotonic() - start) < length_s:
        if passed > length_s / 2 and not was_killed:
            server.kill()
            lines += server.process.lines
            server.start()
            was_killed = True
        (first.popleft() if first else random.choice(groups)).inject_fault()
        pause.wait(PAUSE_S)
    assert was_killed
    return lines


@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "kind"), [("classic", "confluent-range"), ("consumer", "confluent-consumer")]
)
def test_java_consumers_share_a_group_with_librdkafka(
    tmp_path: Path, random_seed: int, protocol: str, kind: str
) -> None:
    server = SawlogServer(tmp_path, SETTINGS)
    library = Confluent(server.bootstrap)
    library.create_topic(TOPIC, PARTITIONS)
    journal = EventJournal()
    group = f"java-{protocol}"
    members: list[JavaConsumer | ConsumerProcess] = []

    def java(name: str) -> JavaConsumer:
        target = (server.bootstrap, group, TOPIC, name, tmp_path)
        members.append(JavaConsumer(journal, *target, protocol))
        return members[-1]  # type: ignore[return-value]

    def wait_for_sizes(*sizes: int) -> None:
        wanted = sorted(sizes)
        journal.wait_until(
            lambda events: sorted(map(len, owned_partitions(events).values())) == wanted
        )

    try:
        records = NumberedRecords(server.bootstrap)
        anna = java("anna")
        wait_for_sizes(PARTITIONS)
        process = ConsumerProcess(journal, server.bootstrap)
        members.append(process)
        process.join(kind, group, TOPIC, "ben")
        wait_for_sizes(3, 3)
        carla = java("carla")
        wait_for_sizes(2, 2, 2)
        anna.kill()
        wait_for_sizes(3, 3)
        server.kill()
        server.start()
        dora = java("dora")
        wait_for_sizes(2, 2, 2)
        process.leave("ben")
        wait_for_sizes(3, 3)
        carla.stop()
        wait_for_sizes(PARTITIONS)
        ends = records.finish()
        journal.wait_until(lambda events: not unread(events, ends), READ_ALL_S)
        dora.stop()
        process.stop()
        check(journal.events, CLOCK_S)
        assert decreasing_commits(library, group, TOPIC, journal.events) == []
        server.stop()
    finally:
        for member in members:
            member.kill()
        server.kill()
