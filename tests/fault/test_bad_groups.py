"""Invalid group requests: no handler fails, memory does not grow, other groups are unaffected."""

import contextlib
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sawlog.protocol.apis import ApiKey, response_class, response_header_version
from sawlog.protocol.codec import decode
from sawlog.protocol.headers import read_response_header
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.list_groups_request import ListGroupsRequest
from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from support.broker.groups import commit_request, committed, fetched
from support.groups.hostile_requests import GroupAttacker
from support.protocol.hostile_frames import bent
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer, running_sawlog
from support.tiers import rounds

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
GROWTH_BYTES = 48 << 20
LIST_VERSION = 5
PATIENCE_S = 2.0
HEALTHY = "healthy"
FAILURES = ("request failed", "Traceback", "cannot be answered", 'broke"')


def ask_until(wire: Wire, message: Any, version: int, is_good: Any) -> Any:
    """Repeat a request until the response is good; the coordinator has to load first."""
    for _ in range(10_000):
        answer = wire.ask(message, version)
        if is_good(answer):
            return answer
    raise AssertionError(f"no good response, last one: {answer}")


def prepare(wire: Wire) -> None:
    topics = [CreatableTopic("t", 3, 1), CreatableTopic("u", 2, 1)]
    wire.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 7)
    find = FindCoordinatorRequest(coordinator_keys=[HEALTHY])
    ask_until(wire, find, 4, lambda answer: answer.coordinators[0].error_code == 0)
    ask_until(wire, ListGroupsRequest(), LIST_VERSION, lambda answer: answer.error_code == 0)


def work(wire: Wire, number: int) -> None:
    """Commit and fetch an offset in a group that is not attacked."""
    answer = wire.ask(healthy_commit(number), 8)
    assert committed(answer) == {("t", 0): 0}
    assert offsets(wire, HEALTHY)[HEALTHY] == {("t", 0): (number, "", 0)}


def healthy_commit(number: int) -> OffsetCommitRequest:
    return commit_request(HEALTHY, {("t", 0): number})


def offsets(wire: Wire, *groups: str) -> dict[str, Any]:
    wanted = [OffsetFetchRequestGroup(group, topics=None) for group in groups]
    answer = wire.ask(OffsetFetchRequest(groups=wanted), 8)
    assert answer is not None
    assert {group.error_code for group in answer.groups} <= {0}
    return {group.group_id: fetched(group) for group in answer.groups}


def attack(server: SawlogServer, random: Random, attacker: GroupAttacker) -> None:
    """Attack with one connection, which may close at any time, also while its joins are parked."""
    with Wire(server.host, server.port) as wire:
        wire.patience_s(PATIENCE_S)
        for _ in range(random.randrange(1, 6)):
            api, version, frame = attacker.frame()
            if random.random() < 0.1:
                wire.send_frame(bent(random, frame))
                return
            wire.send_frame(frame)
            if random.random() < 0.1:
                return
            try:
                answer = wire.receive_frame()
            except TimeoutError:
                return
            if answer is None:
                return
            attacker.learn(read_answer(api, version, answer))


def read_answer(api: ApiKey, version: int, frame: bytes) -> Any:
    view = memoryview(frame)
    _, position = read_response_header(view, response_header_version(api, version))
    return decode(response_class(api), version, view[position:])


def failures_in(server: SawlogServer) -> list[str]:
    return [
        line
        for line in server.process.output.splitlines()
        if any(mark in line for mark in FAILURES)
    ]


@pytest.mark.parametrize("connections", rounds(fast=400, long=3_000, soak=50_000))
def test_hostile_group_requests_do_no_harm(
    tmp_path: Path, connections: int, random_seed: int
) -> None:
    random = Random(random_seed)
    attacker = GroupAttacker(random)
    with running_sawlog(tmp_path, SETTINGS) as server:
        with contextlib.ExitStack() as open_wires:
            wire = open_wires.enter_context(Wire(server.host, server.port))
            prepare(wire)
            for _ in range(100):  # warm up code, caches and pools
                attack(server, random, attacker)
            before_bytes = server.process.rss_bytes()
            for number in range(connections):
                attack(server, random, attacker)
                if number % 20 == 0:
                    work(wire, number)
            assert server.process.rss_bytes() - before_bytes < GROWTH_BYTES
            assert failures_in(server) == []
            names = [group.group_id for group in wire.ask(ListGroupsRequest(), 0).groups]  # type: ignore[union-attr]
            before = offsets(wire, *names)
        server.kill()
        server.start()
        with Wire(server.host, server.port) as wire:
            prepare(wire)
            assert {name: some for name, some in offsets(wire, *names).items() if some} == {
                name: some for name, some in before.items() if some
            }
        assert failures_in(server) == []
