"""Plans of reassignments: replicas are where they should be, and no more move than must."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.cli.reassignment_plan import (
    Move,
    Placement,
    TooFewBrokers,
    plan_leader_moves,
    plan_moves,
)
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

BROKERS = range(1, 8)
NO_RACKS = st.sets(st.sampled_from(BROKERS), min_size=1).map(
    lambda nodes: dict.fromkeys(nodes, None)
)
WITH_RACKS = st.dictionaries(st.sampled_from(BROKERS), st.sampled_from("abc"), min_size=1)
RACKS = st.one_of(NO_RACKS, WITH_RACKS)


def placements(factors: st.SearchStrategy[int]) -> st.SearchStrategy[Placement]:
    name = st.tuples(st.sampled_from(["logs", "orders"]), st.integers(0, 19))
    nodes = st.tuples(st.permutations(BROKERS), factors).map(lambda each: tuple(each[0][: each[1]]))
    return st.dictionaries(name.map(lambda each: partition_of(*each)), nodes, max_size=25)


PLACEMENTS = placements(st.integers(1, 3))


def after(placement: Placement, moves: list[Move]) -> dict[TopicPartition, tuple[int, ...]]:
    return {**placement, **{move.partition: move.new for move in moves}}


def rack_count(replicas: tuple[int, ...], racks: dict[int, str | None]) -> int:
    return len({racks[node] for node in replicas})


@given(PLACEMENTS, RACKS, st.booleans())
def test_every_partition_has_its_number_of_replicas_on_target_brokers(
    placement: Placement, racks: dict[int, str | None], is_balanced: bool
) -> None:
    if any(len(replicas) > len(racks) for replicas in placement.values()):
        with pytest.raises(TooFewBrokers):
            plan_moves(placement, racks, is_balanced=is_balanced)
        return
    moves = plan_moves(placement, racks, is_balanced=is_balanced)
    for partition, replicas in after(placement, moves).items():
        assert len(replicas) == len(placement[partition]) == len(set(replicas))
        assert set(replicas) <= racks.keys()
    assert all(move.old != move.new for move in moves)


@given(PLACEMENTS, RACKS, st.integers(1, 3))
def test_without_balancing_only_replicas_move_that_must(
    placement: Placement, racks: dict[int, str | None], factor: int
) -> None:
    if factor > len(racks):
        return
    for partition, replicas in after(
        placement, plan_moves(placement, racks, factor=factor)
    ).items():
        old = placement[partition]
        stayed = set(old) & racks.keys()
        assert len(set(replicas) & stayed) == min(factor, len(stayed))
        if old[0] in replicas:
            assert replicas[0] == old[0], "the preferred leader stays"
        elif set(replicas) & set(old):
            assert replicas[0] in old, "a replica that has the records is preferred"


@given(PLACEMENTS, RACKS)
def test_new_replicas_go_to_racks_that_have_none(
    placement: Placement, racks: dict[int, str | None]
) -> None:
    if any(len(replicas) > len(racks) for replicas in placement.values()):
        return
    for move in plan_moves(placement, racks):
        stayed = tuple(node for node in move.old if node in racks)
        unused = len(set(racks.values())) - rack_count(stayed, racks)
        gained = rack_count(move.new, racks) - rack_count(stayed, racks)
        assert gained == min(len(move.added), unused)


@given(PLACEMENTS, WITH_RACKS)
def test_a_balanced_plan_uses_as_many_racks_as_it_can(
    placement: Placement, racks: dict[int, str | None]
) -> None:
    if any(len(replicas) > len(racks) for replicas in placement.values()):
        return
    moves = plan_moves(placement, racks, is_balanced=True)
    for replicas in after(placement, moves).values():
        assert rack_count(replicas, racks) == min(len(replicas), len(set(racks.values())))


@given(PLACEMENTS, placements(st.integers(1, 3)), NO_RACKS)
def test_a_balanced_plan_evens_out_replicas_as_far_as_partitions_can_move(
    placement: Placement, others: Placement, racks: dict[int, str | None]
) -> None:
    if any(len(replicas) > len(racks) for replicas in placement.values()):
        return
    others = {each: nodes for each, nodes in others.items() if each not in placement}
    new = after(placement, plan_moves(placement, racks, others=others, is_balanced=True))
    load = Counter(node for nodes in [*new.values(), *others.values()] for node in nodes)
    for giver in racks:
        for taker in racks:
            can_move = any(giver in nodes and taker not in nodes for nodes in new.values())
            assert load[giver] - load[taker] < 2 or not can_move


@given(PLACEMENTS, RACKS)
def test_a_balanced_cluster_is_left_alone(
    placement: Placement, racks: dict[int, str | None]
) -> None:
    if any(len(replicas) > len(racks) for replicas in placement.values()):
        return
    new = after(placement, plan_moves(placement, racks, is_balanced=True))
    assert plan_moves(new, racks, is_balanced=True) == []


@given(PLACEMENTS, st.sampled_from(BROKERS))
def test_a_broker_that_gives_up_its_leaders_keeps_its_replicas(
    placement: Placement, broker: int
) -> None:
    moves = plan_leader_moves(placement, broker, others={})
    for move in moves:
        assert sorted(move.new) == sorted(move.old)
        assert move.new[-1] == broker
    for replicas in after(placement, moves).values():
        assert replicas[0] != broker or len(replicas) == 1


def test_an_added_broker_gets_its_share_and_nothing_else_moves() -> None:
    placement = {
        partition_of("logs", index): tuple((index + step) % 3 + 1 for step in range(3))
        for index in range(12)
    }
    moves = plan_moves(placement, dict.fromkeys([1, 2, 3, 4], None), is_balanced=True)
    assert sum(len(move.added) for move in moves) == 9, "a quarter of 36 replicas"
    assert {node for move in moves for node in move.added} == {4}
    assert Counter(nodes[0] for nodes in after(placement, moves).values()) == dict.fromkeys(
        [1, 2, 3, 4], 3
    )


def test_each_topic_gives_an_added_broker_its_share() -> None:
    placement = {
        partition_of(topic, index): (index % 2 + 1,)
        for topic in ("logs", "orders", "payments")
        for index in range(6)
    }
    moves = plan_moves(placement, dict.fromkeys([1, 2, 3], None), is_balanced=True)
    assert Counter(move.partition.topic for move in moves if move.added) == {
        "logs": 2,
        "orders": 2,
        "payments": 2,
    }


def test_leaders_of_each_topic_are_spread() -> None:
    topics = {"__consumer_offsets": 50, "logs": 4}
    placement = {
        partition_of(topic, index): (1,)
        for topic, count in topics.items()
        for index in range(count)
    }
    moves = plan_moves(placement, dict.fromkeys([1, 2, 3], None), factor=3, is_balanced=True)
    new = after(placement, moves)
    assert Counter(nodes[0] for nodes in new.values()) == dict.fromkeys([1, 2, 3], 18)
    logs = Counter(nodes[0] for partition, nodes in new.items() if partition.topic == "logs")
    assert sorted(logs.values()) == [1, 1, 2]


def test_the_replicas_of_a_lost_broker_are_spread_over_the_others() -> None:
    placement = {partition_of("logs", index): (4, index % 3 + 1) for index in range(6)}
    moves = plan_moves(placement, dict.fromkeys([1, 2, 3], None))
    assert Counter(node for move in moves for node in move.added) == dict.fromkeys([1, 2, 3], 2)
    assert all(move.removed == (4,) for move in moves)
