"""Members of groups come, go, die and are stopped for a minute, and the broker is killed too: every
record is processed, no partition has two owners, and who is out commits nothing.
"""

import threading
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from support.clients.confluent import Confluent
from support.readers.host import Host
from support.readers.java import CLOCK_S, JavaMember
from support.readers.journal import DIED, RESUMED, Event, Journal, holdings
from support.readers.judge import (
    commits_of_the_fenced,
    commits_that_went_back,
    failures,
    overlaps,
    put_out,
    unread,
)
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
OURS = ("sawlog-range", "sawlog-cooperative", "sawlog-consumer")
HOSTS, MEMBERS_OF_A_HOST = 2, 2  # of each kind: twenty members in all
STOPPED_S = 9
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
    """A producer that goes on, whatever the broker does: record n of a partition has offset n."""

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
        """Where each partition ends."""
        self._is_over.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0
        assert self.wrong == []
        return dict(self.counts)


class ChurnedGroup:
    """Members of one kind in a few processes, to which things happen."""

    def __init__(self, server: SawlogServer, kind: str, random: Random) -> None:
        self.kind = kind
        self.name = f"group-of-{kind}"
        self.journal = Journal()
        self._server = server
        self._random = random
        self._count = 0
        self._stopped: list[tuple[float, Host]] = []
        self._hosts: list[Host] = []
        self._happens_first = ["stop", "kill"]

    def start_host(self) -> None:
        host = Host(self.journal, self._server.bootstrap)
        self._hosts.append(host)
        for _ in range(MEMBERS_OF_A_HOST):
            self._join(host)

    def _join(self, host: Host) -> None:
        self._count += 1
        host.join(self.kind, self.name, TOPIC, f"{self.kind} {self._count}")

    def something_happens(self) -> None:
        self.wake_the_stopped()
        stopped = [host for _, host in self._stopped]
        awake = [host for host in self._hosts if host not in stopped]
        if not awake:
            return
        host = self._random.choice(awake)
        what = self._choose(len(awake))
        if what == "kill":
            self._hosts.remove(host)
            host.kill()
            self.start_host()
        elif what == "stop":
            host.pause()
            self._stopped.append((time.monotonic() + STOPPED_S, host))
        elif what == "leave" and host.members:
            host.leave(self._random.choice(host.members))
        elif len(host.members) < 2 * MEMBERS_OF_A_HOST:
            self._join(host)

    def _choose(self, awake: int) -> str:
        """Somebody is always left awake; a kill and a stop come for sure."""
        if awake > 1 and self._happens_first:
            return self._happens_first.pop()
        weights = {"kill": 15, "stop": 10} if awake > 1 else {}
        weights |= {"leave": 35, "join": 40}
        return self._random.choices(list(weights), list(weights.values()))[0]

    def wake_the_stopped(self, *, all_of_them: bool = False) -> None:
        now = time.monotonic()
        for until, host in list(self._stopped):
            if all_of_them or until <= now:
                self._stopped.remove((until, host))
                host.resume()

    def settle(self, ends: dict[int, int]) -> None:
        """With somebody there, everything is read in the end; then all leave."""
        self.wake_the_stopped(all_of_them=True)
        if not any(host.members for host in self._hosts):
            self._join(self._hosts[0])
        self.journal.wait_until(lambda events: not unread(events, ends), READ_ALL_S)
        self.end()

    def end(self) -> None:
        for host in self._hosts:
            host.end()
        self._hosts = []

    def kill(self) -> None:
        for host in self._hosts:
            host.kill()


def check(events: list[Event], tolerance_s: float = 0.0) -> None:
    assert failures(events) == []
    assert overlaps(events, tolerance_s) == []
    assert commits_of_the_fenced(events) == []


@pytest.mark.parametrize("length_s", rounds(long=40, soak=600))
@pytest.mark.parametrize("kinds", [KINDS, OURS], ids=["others", "ours"])
def test_many_members_come_go_and_die(
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
            for _ in range(HOSTS):
                group.start_host()
        told = churn(server, groups, random, length_s)
        ends = records.finish()
        for group in groups:
            group.settle(ends)
        for group in groups:
            events = group.journal.events
            check([*events, *put_out(events, group.name, told + server.process.lines)])
            assert {DIED, RESUMED} <= {event.what for event in group.journal.events}
            assert commits_that_went_back(library, group.name, TOPIC, events) == []
        server.stop()
    finally:
        for group in groups:
            group.kill()
        server.kill()


def churn(
    server: SawlogServer, groups: list[ChurnedGroup], random: Random, length_s: float
) -> list[str]:
    """Half of the time, a kill of the broker, the other half; what it had said till then."""
    told: list[str] = []
    start = time.monotonic()
    pause = threading.Event()
    was_killed = False
    while (passed := time.monotonic() - start) < length_s:
        if passed > length_s / 2 and not was_killed:
            server.kill()
            told += server.process.lines
            server.start()
            was_killed = True
        random.choice(groups).something_happens()
        pause.wait(PAUSE_S)
    assert was_killed
    return told


@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "kind"), [("classic", "confluent-range"), ("consumer", "confluent-consumer")]
)
def test_java_members_and_others_share_a_group(
    tmp_path: Path, random_seed: int, protocol: str, kind: str
) -> None:
    server = SawlogServer(tmp_path, SETTINGS)
    library = Confluent(server.bootstrap)
    library.create_topic(TOPIC, PARTITIONS)
    journal = Journal()
    group = f"java-{protocol}"
    members: list[JavaMember | Host] = []

    def java(name: str) -> JavaMember:
        place = (server.bootstrap, group, TOPIC, name, tmp_path)
        members.append(JavaMember(journal, *place, protocol))
        return members[-1]  # type: ignore[return-value]

    def wait_for_shares(*sizes: int) -> None:
        wanted = sorted(sizes)
        journal.wait_until(lambda events: sorted(map(len, holdings(events).values())) == wanted)

    try:
        records = NumberedRecords(server.bootstrap)
        anna = java("anna")
        wait_for_shares(PARTITIONS)
        host = Host(journal, server.bootstrap)
        members.append(host)
        host.join(kind, group, TOPIC, "ben")
        wait_for_shares(3, 3)
        carla = java("carla")
        wait_for_shares(2, 2, 2)
        anna.kill()
        wait_for_shares(3, 3)
        server.kill()
        server.start()
        dora = java("dora")
        wait_for_shares(2, 2, 2)
        host.leave("ben")
        wait_for_shares(3, 3)
        carla.end()
        wait_for_shares(PARTITIONS)
        ends = records.finish()
        journal.wait_until(lambda events: not unread(events, ends), READ_ALL_S)
        dora.end()
        host.end()
        check(journal.events, CLOCK_S)
        assert commits_that_went_back(library, group, TOPIC, journal.events) == []
        server.stop()
    finally:
        for member in members:
            member.kill()
        server.kill()
