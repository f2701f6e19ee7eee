"""Faults under a broker that compacts all the time: kills, a full disk, damage, slow consumers."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest

from support.client.keyed_load import CLEANER, COMPACTED, KeyedLoad
from support.client_libraries.confluent_library import Confluent
from support.kafka.compaction import set_config, wait_until_compacted
from support.process import is_alive, wait_until
from support.server.broker_process import SawlogServer
from support.storage.damage import flip
from support.tiers import rounds

TOPIC = "compacted"
HEADER_BYTES = 61
STOPS = 50
SPARE_BYTES = 16 << 10  # enough for a changed configuration, and not for cleaned segments


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    server = SawlogServer(tmp_path, CLEANER)
    Confluent(server.bootstrap).create_topic(TOPIC, config=COMPACTED)
    yield server
    server.kill()


def workers(server: SawlogServer) -> list[psutil.Process]:
    """The processes of the log cleaner."""
    try:
        return psutil.Process(server.process.pid).children()
    except psutil.NoSuchProcess:
        return []


def worker_at_work(server: SawlogServer, load: KeyedLoad) -> psutil.Process:
    """A cleaner process, with a load that needs it."""
    while not (found := workers(server)):
        load.run_until(load.acknowledged + 200)
    return found[0]


def stopped_worker(server: SawlogServer, load: KeyedLoad) -> psutil.Process:
    """A cleaner process that is stopped by a signal in the middle of a request, under a load.

    It has lowered its priority. The broker ends a worker that has no request, stopped or not.
    """
    priority = psutil.Process(server.process.pid).nice()
    stopped = 0
    while stopped < STOPS:
        worker = worker_at_work(server, load)
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.suspend()
            if worker.status() == psutil.STATUS_STOPPED and worker.nice() > priority:
                stopped += 1
                load.run_until(load.acknowledged + 2_000)
                if is_alive(worker):
                    return worker
            worker.resume()
    raise AssertionError(f"none of {STOPS} workers was stopped in the middle of a request")


def check_compacted(server: SawlogServer, load: KeyedLoad) -> None:
    """When the load is over and the cleaner is done, each key has its last value."""
    load.finish()
    wait_until_compacted(server, Confluent(server.bootstrap), load.topic)
    left = {record.key: record.value for record in load.check()}
    last = load.state()
    assert {key: left.get(key) for key in last} == last


@pytest.mark.parametrize("kills", rounds(long=4, soak=300))
def test_a_killed_broker_keeps_the_last_value_of_every_key(
    server: SawlogServer, kills: int, random_seed: int
) -> None:
    random = Random(random_seed)
    load = KeyedLoad(server.bootstrap, TOPIC, random_seed)
    for _ in range(kills):
        load.run_until(load.acknowledged + random.randrange(1, 2_000))
        server.kill()
        server.start()
        load.check()
    check_compacted(server, load)


@pytest.mark.parametrize("kills", rounds(long=4, soak=100))
def test_a_killed_cleaner_process_is_replaced(server: SawlogServer, kills: int) -> None:
    load = KeyedLoad(server.bootstrap, TOPIC, 1)
    for _ in range(kills):
        worker_at_work(server, load).kill()
        load.run_until(load.acknowledged + 500)
    assert server.process.is_running
    check_compacted(server, load)


@pytest.mark.long
def test_a_stopped_cleaner_process_delays_compaction_only(server: SawlogServer) -> None:
    load = KeyedLoad(server.bootstrap, TOPIC, 2)
    worker = stopped_worker(server, load)
    load.check()
    worker.resume()
    check_compacted(server, load)


@pytest.mark.long
def test_a_stopped_cleaner_process_ends_with_its_broker(server: SawlogServer) -> None:
    """A worker that goes on later must not write to the files of the next broker's worker."""
    load = KeyedLoad(server.bootstrap, TOPIC, 3)
    worker = stopped_worker(server, load)
    server.kill()
    wait_until(lambda: not is_alive(worker), patience_s=30)
    server.start()
    check_compacted(server, load)


@pytest.mark.long
def test_damage_stops_the_compaction_of_its_partition_only(server: SawlogServer) -> None:
    library = Confluent(server.bootstrap)
    library.create_topic("sound", config=COMPACTED)
    damaged, sound = (KeyedLoad(server.bootstrap, topic, 4) for topic in (TOPIC, "sound"))
    for load in (damaged, sound):
        load.run_until(2_000)
        check_compacted(server, load)
    server.stop()
    logs = sorted((server.data / f"{TOPIC}-0").glob("*.log"))
    path = next(log for log in logs if log.stat().st_size)
    assert path != logs[-1]
    flip(path, HEADER_BYTES + 3)
    assert verify(server.data).returncode == 1
    assert path.stem.lstrip("0") in verify(server.data).stdout
    kept = {log.name: log.read_bytes() for log in logs[:-1]}
    server.start()
    for load in (damaged, sound):
        load.run_until(load.acknowledged + 2_000)
        load.finish()
    server.process.wait_for_line(f"damaged and not cleaned.*{TOPIC}-0")
    check_compacted(server, sound)
    assert {name: (path.parent / name).read_bytes() for name in kept} == kept
    assert not list(path.parent.glob("*.cleaned"))
    assert library.bounds(TOPIC) == (0, damaged.acknowledged)


def verify(data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sawlog.cli.main", "log", "verify", str(data)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.long
def test_a_full_disk_delays_compaction_only(small_disk: Path) -> None:
    """Where there is no space for cleaned files, the log stays as it is, until there is."""
    server = SawlogServer(small_disk, CLEANER)
    try:
        library = Confluent(server.bootstrap)
        config = COMPACTED | {"internal.segment.bytes": str(1 << 20)}
        library.create_topic(TOPIC, config=config | {"min.cleanable.dirty.ratio": "1"})
        load = KeyedLoad(server.bootstrap, TOPIC, 6, keys=8_000)
        load.run_until(25_000)
        load.finish()
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"." * 4_096):
                pass
        os.truncate(ballast, ballast.stat().st_size - SPARE_BYTES)
        set_config(library, TOPIC, "min.cleanable.dirty.ratio", "0.01")
        server.process.wait_for_line("log not cleaned", 30)
        load.check()
        ballast.unlink()
        check_compacted(server, load)
    finally:
        server.kill()
