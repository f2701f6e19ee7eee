"""Configs of groups, client metrics subscriptions and loggers, and ListConfigResources."""

from typing import Any

from transcripts.scenarios.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    NODE,
    SET,
    SUBTRACT,
    TOPIC,
    Configs,
    entries_of,
)
from transcripts.scenarios.group_members import wait_for_coordinator
from transcripts.transcript import Transcript

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
ODD_NAME = "a group/with an odd name*"


def run(transcript: Transcript) -> None:
    transcript.create_topic("config-resources")
    groups(transcript)
    group_errors(transcript)
    effective_group(transcript)
    client_metrics(transcript)
    loggers(transcript)
    listing(transcript)


def groups(transcript: Transcript) -> None:
    group = Configs(transcript, GROUP, "g1")
    group.describe("a group without configs")
    group.alter("set", (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    group.wait_for(HEARTBEAT, "6000")
    group.describe("after set", SESSION, HEARTBEAT, INTERVAL)
    group.alter("delete", (SESSION, DELETE, None))
    group.wait_for(SESSION, "45000")
    group.describe("after delete", SESSION)
    group.alter("delete a config that is not set", (SESSION, DELETE, None))
    group.alter("delete an unknown config", ("no.such.key", DELETE, None))
    group.alter("delete with a value", (HEARTBEAT, DELETE, "1"), validate_only=True)
    group.alter("validate only", (SESSION, SET, "50000"), validate_only=True)
    group.alter("no changes")
    group.replace("replace all configs", consumer_session_timeout_ms="46000")
    group.wait_for(SESSION, "46000")
    group.describe("after replacing", SESSION, HEARTBEAT)
    group.replace("replace by nothing")
    group.wait_for(SESSION, "45000")
    odd = Configs(transcript, GROUP, ODD_NAME)
    odd.alter("an odd name", (SESSION, SET, "50000"))
    odd.wait_for(SESSION, "50000")
    odd.describe("an odd name", SESSION)


def group_errors(transcript: Transcript) -> None:
    group = Configs(transcript, GROUP, "g1")
    for name, values in (
        (SESSION, ("0", "44999", "60001", "x", "")),
        (HEARTBEAT, ("0", "4999", "15001", "x")),
        (INTERVAL, ("-1", "15001", "x")),
        ("share.auto.offset.reset", ("sometime", "by_duration:1")),
        ("share.isolation.level", ("x",)),
        ("share.record.lock.duration.ms", ("1", "3600001")),
        ("share.delivery.count.limit", ("1", "100")),
        ("share.partition.max.record.locks", ("1", "10001")),
        ("share.renew.acknowledge.enable", ("x",)),
        ("streams.num.standby.replicas", ("-1", "3")),
        ("streams.initial.rebalance.delay.ms", ("-1",)),
        ("streams.session.timeout.ms", ("1",)),
        ("no.such.key", ("1",)),
    ):
        for value in values:
            group.alter(f"{name}={value}", (name, SET, value))
    group.alter("append to a number", (SESSION, APPEND, "1"))
    group.alter("subtract from a text", ("share.isolation.level", SUBTRACT, "x"))
    group.alter("a key twice", (SESSION, SET, "50000"), (SESSION, SET, "50000"))
    group.alter("set without a value", (SESSION, SET, None))
    group.alter("a valid and an invalid change", (SESSION, SET, "50000"), (HEARTBEAT, SET, "1"))
    group.describe("nothing was changed", SESSION)
    for value in ("by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "earliest"):
        group.alter(value, ("share.auto.offset.reset", SET, value))
    group.replace("reset")
    nameless = Configs(transcript, GROUP, "")
    nameless.alter("an empty name", (SESSION, SET, "50000"))
    nameless.describe("an empty name")


def effective_group(transcript: Transcript) -> None:
    """The response to a heartbeat has the interval of the group."""
    group = Configs(transcript, GROUP, "beats")
    group.alter("heartbeat interval of a group", (HEARTBEAT, SET, "7000"))
    group.wait_for(HEARTBEAT, "7000")
    fields = {
        "group_id": "beats",
        "member_id": "m1",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["config-resources"],
        "server_assignor": None,
        "topic_partitions": [],
    }
    wait_for_coordinator(transcript, "beats")

    def beat(title: str, keep: Any) -> None:
        transcript.request(title, "ConsumerGroupHeartbeat", 1, fields, keep=keep)

    def interval(response: dict[str, Any]) -> Any:
        return {"heartbeat_interval_ms": response["heartbeat_interval_ms"]}

    beat("a member of the group", interval)
    group.alter("delete the interval", (HEARTBEAT, DELETE, None))
    group.wait_for(HEARTBEAT, "5000")
    beat("a member of the group, later", interval)


def client_metrics(transcript: Transcript) -> None:
    metrics = Configs(transcript, METRICS, "m1")
    metrics.describe("a subscription without configs")
    metrics.alter("set", ("interval.ms", SET, "1000"), ("metrics", SET, "a,b"))
    metrics.wait_for("interval.ms", "1000")
    metrics.describe("after set")
    metrics.alter("append", ("metrics", APPEND, "c"))
    metrics.alter("match", ("match", SET, "client_software_name=sawlog.*"))
    for name, value in (
        ("interval.ms", "99"),
        ("interval.ms", "3600001"),
        ("interval.ms", "x"),
        ("match", "x=y"),
        ("match", "client_id"),
        ("no.such.key", "1"),
    ):
        metrics.alter(f"{name}={value}", (name, SET, value))
    nameless = Configs(transcript, METRICS, "")
    nameless.alter("an empty name", ("interval.ms", SET, "1000"))
    nameless.describe("an empty name")


def loggers(transcript: Transcript) -> None:
    """Brokers have loggers of different names; all have the root."""
    one = Configs(transcript, LOGGER, NODE)

    def root(response: dict[str, Any]) -> Any:
        (found,) = (each for each in entries_of(response) if each["name"] == "root")
        return {"results": [{**response["results"][0], "configs": [found]}]}

    for level in ("ERROR", "WARN", "INFO", "DEBUG", "TRACE", "FATAL", "ERROR"):
        one.alter(f"set to {level}", ("root", SET, level))
        one.describe(f"after {level}", keep=root)
    one.describe("the root by its name", "root")
    one.alter("validate only", ("root", SET, "INFO"), validate_only=True)
    for name, operation, value in (
        ("root", SET, "LOUD"),
        ("root", SET, "info"),
        ("root", SET, ""),
        ("root", SET, None),
        ("root", DELETE, None),
        ("root", APPEND, "INFO"),
        ("root", SUBTRACT, "INFO"),
        ("no.such.logger", SET, "INFO"),
        ("no.such.logger", DELETE, None),
        ("no.such.logger", DELETE, ""),
        ("no.such.logger", SET, "LOUD"),
    ):
        one.alter("refused", (name, operation, value))
    one.alter("no changes")
    one.alter("a valid and an invalid change", ("root", SET, "INFO"), ("no.such", SET, "INFO"))
    one.describe("nothing was changed", keep=root)
    one.replace("AlterConfigs", root="INFO")
    for name in ("9", "x", ""):
        Configs(transcript, LOGGER, name).alter(f"broker {name}", ("root", SET, "INFO"))
        Configs(transcript, LOGGER, name).describe(f"broker {name}")


def listing(transcript: Transcript) -> None:
    def ask(title: str, *types: int, version: int = 1) -> None:
        fields = {"resource_types": list(types)} if version else {}
        transcript.request(title, "ListConfigResources", version, fields, keep=_ours)

    ask("client metrics", version=0)
    ask("all types")
    for kind in (TOPIC, BROKER, LOGGER, METRICS, GROUP):
        ask(f"type {kind}", kind)
    ask("two types", BROKER, GROUP)
    ask("a type twice", GROUP, GROUP)
    for kind in (0, 1, 3, 99):
        ask(f"type {kind}", kind)
    ask("a valid and an invalid type", GROUP, 99)
    group, metrics = Configs(transcript, GROUP, ODD_NAME), Configs(transcript, METRICS, "m1")
    group.alter("delete the last config", (SESSION, DELETE, None))
    group.wait_for(SESSION, "45000")
    metrics.replace("delete all configs")
    metrics.wait_for("interval.ms", "300000")
    ask("after deletion", GROUP, METRICS)


def _ours(response: dict[str, Any]) -> Any:
    """Without the topics of other scenarios, in a fixed order."""
    kept = [
        each
        for each in response["config_resources"]
        if each.get("resource_type") != TOPIC or each["resource_name"].startswith("config-")
    ]
    kept.sort(key=lambda each: (each["resource_name"], each.get("resource_type", METRICS)))
    return {**response, "config_resources": kept}
