"""`sawlog cluster` on three real brokers: status, reassign, elect, drain, and what they refuse."""

import json
from collections.abc import Callable

import pytest

from sawlog.client import Admin, Producer
from sawlog.client.admin.configs import Resource
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Partition
from sawlog.core.config_api import ConfigSource, ResourceType
from sawlog.core.config_throttle import THROTTLED_RATES, THROTTLED_REPLICAS
from support.cli.command_line import Sawlog, rows
from support.cli.terminal import terminal
from support.process import wait_until
from support.server.broker_cluster import BrokerCluster

pytestmark = pytest.mark.long
Place = Callable[..., str]


def partitions(admin: Admin, topic: str) -> list[Partition]:
    (found,), _ = admin.describe_topics([topic])
    return [*found.partitions.values()]


def wait_for_replicas(admin: Admin, topic: str, expected: list[tuple[int, ...]]) -> None:
    """The command asked the controller; other brokers show a change a moment later."""
    wait_until(lambda: [each.replicas for each in partitions(admin, topic)] == expected)


def wait_for_leaders(admin: Admin, topic: str, expected: list[int]) -> None:
    wait_until(lambda: [each.leader for each in partitions(admin, topic)] == expected)


def problems(sawlog: Sawlog, topic: str) -> list[str | None]:
    status = json.loads(sawlog("cluster", "status", "--json", code=1))
    assert status["healthy"] is False
    return [each["problem"] for each in status["partitions"] if each["topic"] == topic]


def test_status_shows_brokers_racks_and_counts(sawlog: Sawlog, place: Place) -> None:
    topic = place([1, 2], [2, 3])
    status = sawlog.json("cluster", "status")
    assert status["healthy"] is True
    assert status["controller"] in (1, 2, 3)
    assert [(each["broker"], each["rack"], each["up"]) for each in status["brokers"]] == [
        (1, "a", True),
        (2, "b", True),
        (3, "c", True),
    ]
    shown = [each for each in status["partitions"] if each["topic"] == topic]
    assert [each["replicas"] for each in shown] == [[1, 2], [2, 3]]
    table = rows(sawlog("cluster", "status", "--all"))
    assert [topic, "1", "2", "2,3", "2,3", "1", "-"] in table


def test_status_names_what_a_stopped_broker_leaves_behind(
    sawlog: Sawlog, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic, sole, strict = place([3, 1], [1, 2]), place([3]), place([1, 3])
    sawlog("topics", "alter", strict, "--config", "min.insync.replicas=2")
    with broker_cluster.stopped(3):
        assert problems(sawlog, topic) == ["under-replicated", None]
        assert problems(sawlog, sole) == ["offline"]
        assert problems(sawlog, strict) == ["under min ISR"]
        table = rows(sawlog("cluster", "status", code=1))
        assert next(row for row in table if row[-1] == "down")[:4] == ["3", "-", "-", "0"]
        assert [sole, "0", "-", "3", "3", "1", "offline"] in table
    sawlog("cluster", "status")


def test_commands_ask_the_controller(broker_cluster: BrokerCluster) -> None:
    controller = broker_cluster.controller()
    for node in broker_cluster.follower_nodes():
        with Cluster(broker_cluster.servers[node].bootstrap) as cluster:
            cluster.prefer_controller()
            asked = cluster.any_connection().address
        assert str(asked) == broker_cluster.servers[controller].bootstrap


def test_a_topic_moves_to_other_brokers_with_its_records(
    sawlog: Sawlog, admin: Admin, place: Place
) -> None:
    topic = place([1], [1])
    sawlog.produce(topic, 0, 1_000, 2_000)
    shown = sawlog("cluster", "reassign", "--topic", topic, "--to", "2,3")
    assert "nothing was changed" in sawlog.stderr
    assert [row[-1] for row in rows(shown)[1:]] == ["1", "1"], "the removed broker"
    wait_for_replicas(admin, topic, [(1,), (1,)])

    sawlog("cluster", "reassign", "--topic", topic, "--to", "2,3", "--yes")
    # Which of both gets a partition depends on the replicas of __consumer_offsets that they have.
    wait_until(lambda: {each.leader for each in partitions(admin, topic)} <= {2, 3})
    assert {each.replicas for each in partitions(admin, topic)} <= {(2,), (3,)}
    read = sawlog("consume", topic, "--from", "beginning", "--count", "2", "--json")
    assert [json.loads(line)["timestamp"] for line in read.splitlines()] == [1_000, 2_000]


def test_the_replication_factor_grows_and_shrinks(
    sawlog: Sawlog, admin: Admin, place: Place
) -> None:
    topic = place([1], [2], [3])
    chosen = ("cluster", "reassign", "--topic", topic, "--replicas")
    sawlog(*chosen, "2", "--yes")
    wait_until(lambda: all(len(set(each.replicas)) == 2 for each in partitions(admin, topic)))
    assert [each.replicas[0] for each in partitions(admin, topic)] == [1, 2, 3]
    sawlog(*chosen, "1", "--yes")
    wait_for_replicas(admin, topic, [(1,), (2,), (3,)])
    sawlog(*chosen, "1", "--yes")
    assert "nothing to move" in sawlog.stderr


def test_replicas_of_a_broker_that_is_down_are_replaced(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3, 1], [1, 2], [2, 3])
    with broker_cluster.stopped(3):
        for other in ("--add-broker", "--remove-broker"):
            sawlog("cluster", "reassign", "--topic", topic, other, "2", "--yes", code=1)
            assert "broker 3 has replicas and is down; nothing was changed" in sawlog.stderr
        sawlog("cluster", "reassign", "--topic", topic, "--remove-broker", "3", "--yes")
        wait_for_replicas(admin, topic, [(1, 2), (1, 2), (2, 1)])


def test_a_plan_has_the_format_of_kafkas_tool(sawlog: Sawlog, place: Place) -> None:
    topic = place([1])
    plan = sawlog.json("cluster", "reassign", "--topic", topic, "--to", "2")
    assert plan == {
        "version": 1,
        "partitions": [{"topic": topic, "partition": 0, "replicas": [2]}],
    }


def test_an_interrupted_reassignment_goes_on_and_can_be_cancelled(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    slow, stays = sorted(broker_cluster.follower_nodes())
    controller = broker_cluster.controller()
    others = ",".join(broker_cluster.servers[node].bootstrap for node in (controller, stays))
    topic = place([controller])
    scope = ("--topic", topic)
    with broker_cluster.paused(slow):  # its new replica cannot catch up
        arguments = ("cluster", "reassign", *scope, "--to", str(slow), "--yes")
        with terminal(*arguments, bootstrap=others) as shown:
            shown.read_until("moving")
            assert shown.interrupt() == 130
            assert b"goes on" in shown.shown
            assert b"--resume" in shown.shown
        partition = partition_of(topic, 0)
        assert admin.list_partition_reassignments()[partition].target == (slow,)
        sawlog("cluster", "reassign", *scope, "--to", str(stays), "--yes", code=1)
        assert "being reassigned already; nothing was changed" in sawlog.stderr
        sawlog("cluster", "reassign", *scope, "--cancel")
        assert "1 reassignment cancelled" in sawlog.stderr
        wait_for_replicas(admin, topic, [(controller,)])
    with broker_cluster.paused(slow):  # anew: its session must not end before the request
        assert admin.alter_partition_reassignments({partition: [slow]}) == {}
    sawlog("cluster", "reassign", *scope, "--resume")
    wait_for_replicas(admin, topic, [(slow,)])


def test_preferred_leaders_are_elected(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3, 1], [1, 3])
    with broker_cluster.stopped(3):
        wait_for_leaders(admin, topic, [1, 1])
    elected = rows(sawlog("cluster", "elect", "--topic", topic))
    assert elected[1:] == [[topic, "0", "1", "->", "3"]]
    wait_for_leaders(admin, topic, [3, 1])
    assert sawlog.json("cluster", "elect", "--topic", topic) == []
    assert "no partition needs an election" in sawlog.stderr


def test_elections_are_printed_as_json(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3, 1])
    entry = {"topic": topic, "partition": 0, "old_leader": 1}
    with broker_cluster.stopped(3):
        refused = sawlog("cluster", "elect", "--topic", topic, "--json", code=1)
        error = "PREFERRED_LEADER_NOT_AVAILABLE"
        assert json.loads(refused) == [entry | {"new_leader": 1, "error": error}]
    elected = sawlog.json("cluster", "elect", "--topic", topic)
    assert elected == [entry | {"new_leader": 3, "error": None}]


def test_an_unclean_election_needs_a_confirmation(
    sawlog: Sawlog, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3])
    with broker_cluster.stopped(3):
        sawlog("cluster", "elect", "--unclean", "--topic", topic, code=2)
        assert "may lose acknowledged records" in sawlog.stderr
        sawlog("cluster", "elect", "--unclean", "--topic", topic, "--yes", code=1)
        assert "ELIGIBLE_LEADERS_NOT_AVAILABLE" in sawlog.stderr


def test_an_unclean_election_lets_a_replica_lead_that_was_not_in_sync(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3, 1])
    broker_cluster.servers[1].stop()
    with broker_cluster.stopped(3):
        broker_cluster.servers[1].start()
        assert problems(sawlog, topic) == ["offline"]
        sawlog("cluster", "elect", "--unclean", "--topic", topic, "--yes")
        wait_for_leaders(admin, topic, [1])


def test_a_drained_broker_has_no_replicas(sawlog: Sawlog, admin: Admin, place: Place) -> None:
    topic = place([3, 1], [1, 2], [2, 3])
    sawlog("cluster", "drain", "3", "--leaders-only", "--yes")
    wait_for_replicas(admin, topic, [(1, 3), (1, 2), (2, 3)])
    wait_for_leaders(admin, topic, [1, 1, 2])
    sawlog("cluster", "drain", "3", "--yes")
    assert "broker 3 has no replicas" in sawlog.stderr
    wait_for_replicas(admin, topic, [(1, 2), (1, 2), (2, 1)])
    (drained,) = [
        each for each in sawlog.json("cluster", "status")["brokers"] if each["broker"] == 3
    ]
    assert (drained["leaders"], drained["replicas"]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["reassign", "--to", "1,9"], 1, "no live broker 9; the live brokers are 1, 2, 3"),
        (["reassign", "--add-broker", "7"], 1, "no live broker 7"),
        (["reassign", "--remove-broker", "7"], 1, "no broker 7, live or with replicas"),
        (["reassign", "--replicas", "4"], 1, "needs 4 replicas; the brokers for them are 1, 2, 3"),
        (["reassign", "--to", "1"], 1, "needs 2 replicas; the brokers for them are 1"),
        (["reassign"], 2, "give --to, --add-broker, --remove-broker or --replicas"),
        (["reassign", "--to", "1", "--cancel"], 2, "or --cancel"),
        (["reassign", "--to", "1", "--add-broker", "2"], 2, "not both"),
        (["reassign", "--to", "one"], 2, "'one' is not an integer"),
        (["reassign", "--to", "1", "--topic", "missing"], 1, "missing"),
        (["reassign", "--to", "1", "--throttle", "0"], 2, "'0' is not an integer from 1"),
        (["reassign", "--cancel", "--throttle", "1"], 2, "it takes no --throttle"),
        (["drain", "1", "--leaders-only", "--throttle", "1"], 2, "it takes no --throttle"),
        (["drain", "8"], 1, "there is no broker 8; the brokers are 1, 2, 3"),
        (["elect", "--topic", "missing"], 1, "missing"),
    ],
)
def test_bad_input_changes_nothing(
    sawlog: Sawlog, admin: Admin, place: Place, arguments: list[str], code: int, said: str
) -> None:
    topic = place([1, 2])
    command, *options = arguments
    yes = [] if command == "elect" else ["--yes"]
    sawlog("cluster", command, *options, *yes, code=code)
    assert said in sawlog.stderr
    wait_for_replicas(admin, topic, [(1, 2)])


def test_too_few_brokers_for_a_drain_or_a_new_topic_change_nothing(
    sawlog: Sawlog, admin: Admin, place: Place
) -> None:
    topic = place([1, 2, 3])
    sawlog("cluster", "drain", "1", "--yes", code=1)
    assert "needs 3 replicas; the brokers for them are 2, 3" in sawlog.stderr
    assert "--leaders-only" in sawlog.stderr
    wait_for_replicas(admin, topic, [(1, 2, 3)])
    sawlog("topics", "create", "too-many", "--replicas", "4", code=1)
    assert "INVALID_REPLICATION_FACTOR" in sawlog.stderr
    assert "too-many" not in sawlog("topics", "list")


def test_no_reachable_broker_has_its_own_exit_code(
    sawlog: Sawlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAWLOG_BOOTSTRAP", "127.0.0.1:1")
    sawlog("cluster", "status", code=3)
    assert "no broker can be reached" in sawlog.stderr


def throttles(admin: Admin, topic: str) -> dict[str, str | None]:
    """The settings of a throttle that the topic and the brokers have."""
    resources = [Resource(ResourceType.TOPIC, topic)]
    resources += [Resource(ResourceType.BROKER, str(node)) for node in (1, 2, 3)]
    return {
        f"{resource.name} {entry.name}": entry.value
        for resource in resources
        for entry in admin.describe_configs(
            [resource], names=[*THROTTLED_RATES, *THROTTLED_REPLICAS]
        )[resource]
        if entry.source in (ConfigSource.TOPIC, ConfigSource.BROKER)
    }


def wait_for_throttles(admin: Admin, topic: str, expected: dict[str, str]) -> None:
    wait_until(lambda: throttles(admin, topic) == expected)


def test_a_throttled_reassignment_is_slow_until_its_throttle_changes(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([1], [2])
    with Producer(broker_cluster.bootstrap) as producer:
        for _ in range(40):
            producer.send(topic, b"x" * 100_000, partition=0)
    scope = ("cluster", "reassign", "--topic", topic)
    arguments = (*scope, "--to", "3", "--throttle", "1000", "--yes")
    with terminal(*arguments, bootstrap=broker_cluster.bootstrap) as shown:
        shown.read_until("moving")
        rates = {f"{node} {name}": "1000" for node in (1, 2, 3) for name in THROTTLED_RATES}
        replicas_of = {
            f"{topic} leader.replication.throttled.replicas": "0:1,1:2",
            f"{topic} follower.replication.throttled.replicas": "0:3,1:3",
        }
        wait_for_throttles(admin, topic, rates | replicas_of)
        assert shown.interrupt() == 130
        assert b"removes its throttle" in shown.shown
    assert partition_of(topic, 0) in admin.list_partition_reassignments(), "1 MB in 11 s at most"
    sawlog(*scope, "--resume", "--throttle", "1000000000")
    assert "throttled: each broker sends and receives at most 954 MiB/s" in sawlog.stderr
    assert "the throttle was removed" in sawlog.stderr
    wait_for_replicas(admin, topic, [(3,), (3,)])
    wait_for_throttles(admin, topic, {})


def test_a_cancelled_reassignment_and_a_drain_remove_their_throttle(
    sawlog: Sawlog, admin: Admin, broker_cluster: BrokerCluster, place: Place
) -> None:
    topic = place([3, 1])
    sawlog("cluster", "drain", "3", "--throttle", "100000000", "--yes")
    assert "the throttle was removed" in sawlog.stderr
    wait_for_replicas(admin, topic, [(1, 2)])
    wait_for_throttles(admin, topic, {})
    sawlog("topics", "alter", topic, "--config", "follower.replication.throttled.replicas=*")
    sawlog("cluster", "reassign", "--topic", topic, "--cancel")
    assert "the throttle was removed" in sawlog.stderr
    wait_for_throttles(admin, topic, {})
