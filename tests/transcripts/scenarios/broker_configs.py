"""Dynamic configs of a broker and of all brokers, and the topics that inherit from them."""

from typing import Any

from transcripts.scenarios.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    NODE,
    SET,
    SUBTRACT,
    TOPIC,
    Configs,
    entries_of,
)
from transcripts.steps import Differs
from transcripts.transcript import Transcript

DEFAULT = 5
NOT_COMPARED = (
    "flush.policy",
    "log.initial.task.delay.ms",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.digest.credentials",
    "zookeeper.session.timeout.ms",
)
"""Settings that Kafka does not have, and one that is internal, and set in the tests only."""
NOT_SAFE = Differs(
    "Sawlog refuses security settings, which would have no effect",
    {
        "responses.0": {
            "error_code": "INVALID_REQUEST",
            "error_message": "<words>",
            "resource_type": BROKER,
            "resource_name": NODE,
        }
    },
)


def run(transcript: Transcript) -> None:
    transcript.create_topic("inherits")
    transcript.create_topic("has-own", retention_ms="5000")
    one, all_ = Configs(transcript, BROKER, NODE), Configs(transcript, BROKER, "")
    all_settings(one)
    precedence(transcript, one, all_)
    lists(one)
    other_levels(one, all_)
    refused_names(one, all_)
    refused_values(one, all_)
    cluster_wide(one, all_)
    without_effect(one, all_)
    replaced(one, all_)


def all_settings(one: Configs) -> None:
    """Names, types, defaults and what can be changed, of every setting."""

    def keep(response: dict[str, Any]) -> Any:
        entries = entries_of(response)
        kept = [_as_default(entry) for entry in entries if entry["name"] not in NOT_COMPARED]
        return {"results": [{"configs": kept}]}

    one.describe("all settings of a broker, with their defaults", keep=keep)


def _as_default(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as if the setting were not set."""
    defaults = [each["value"] for each in entry["synonyms"] if each["source"] == DEFAULT]
    value = defaults[0] if defaults else None
    return {**entry, "value": value, "config_source": DEFAULT, "synonyms": []}


def precedence(transcript: Transcript, one: Configs, all_: Configs) -> None:
    topic, own = (Configs(transcript, TOPIC, name) for name in ("inherits", "has-own"))
    chain = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")

    def show(title: str) -> None:
        one.describe(f"the broker, {title}", *chain)
        topic.describe(f"a topic, {title}", "retention.ms")

    show("without dynamic configs")
    all_.alter("set for all brokers", ("log.retention.ms", SET, "7200000"))
    one.wait_for("log.retention.ms", "7200000")
    show("with a value of all brokers")
    one.alter("set for one broker", ("log.retention.ms", SET, "3600000"))
    one.wait_for("log.retention.ms", "3600000")
    show("with a value of its own")
    own.describe("a topic with a value of its own", "retention.ms")
    all_.describe("all brokers", "log.retention.ms")
    all_.describe("an unknown key of all brokers", "no.such.key")
    topic_sources(transcript)
    one.alter("validate only", ("log.retention.ms", SET, "1000"), validate_only=True)
    one.alter("no changes")
    one.alter("set to the same value", ("log.retention.ms", SET, "3600000"))
    one.alter("delete for one broker", ("log.retention.ms", DELETE, None))
    one.wait_for("log.retention.ms", "7200000")
    show("with the value of all brokers again")
    all_.alter("delete for all brokers", ("log.retention.ms", DELETE, None))
    one.wait_for("log.retention.ms", None)
    show("with the default again")
    all_.alter("a negative retention", ("log.retention.ms", SET, "-5"))
    one.wait_for("log.retention.ms", "-5")
    show("with a negative value")
    all_.alter("delete it", ("log.retention.ms", DELETE, None))
    one.wait_for("log.retention.ms", None)
    all_.alter("delete a config that is not set", ("log.retention.ms", DELETE, None))


def topic_sources(transcript: Transcript) -> None:
    """CreateTopics tells the source, too."""
    topic = {"name": "inherits-2", "num_partitions": 1, "replication_factor": 1}
    names = ("retention.ms", "min.insync.replicas", "segment.ms")
    transcript.request(
        "create a topic that inherits",
        "CreateTopics",
        7,
        {"topics": [topic], "validate_only": True},
        keep=lambda response: [
            each for each in response["topics"][0]["configs"] if each["name"] in names
        ],
    )


def lists(one: Configs) -> None:
    one.alter("append to the default", ("log.cleanup.policy", APPEND, "compact"))
    one.wait_for("log.cleanup.policy", "delete,compact")
    one.describe("after append", "log.cleanup.policy")
    one.alter("subtract", ("log.cleanup.policy", SUBTRACT, "delete"))
    one.wait_for("log.cleanup.policy", "compact")
    one.alter("delete", ("log.cleanup.policy", DELETE, None))
    one.wait_for("log.cleanup.policy", "delete")
    one.alter("append to a number", ("log.retention.ms", APPEND, "1"))
    one.alter("subtract from a number", ("log.retention.ms", SUBTRACT, "1"))
    one.alter("append to an unknown config", ("no.such.key", APPEND, "1"))


def other_levels(one: Configs, all_: Configs) -> None:
    transcript = one.transcript
    good = ("log.retention.ms", SET, "5000")
    for name in ("9", "x", "-1"):
        Configs(transcript, BROKER, name).alter(f"broker {name}", good)
    all_.alter("of one broker only", ("listeners", SET, "PLAINTEXT://:1"))
    all_.alter("of one broker only", ("cordoned.log.dirs", SET, "/x"))
    one.alter("a directory that is not a log directory", ("cordoned.log.dirs", SET, "/x"))
    one.alter("another listener", ("listeners", SET, "PLAINTEXT://:1"))
    for level in (one, all_):
        level.alter("only with a listener's prefix", ("ssl.keystore.location", SET, "/x"))


def refused_names(one: Configs, all_: Configs) -> None:
    for level in (one, all_):
        for name in ("node.id", "num.partitions", "log.retention.hours", "advertised.listeners"):
            level.alter("a read-only config", (name, SET, "5"))
        level.alter("delete a read-only config", ("num.partitions", DELETE, None))
        level.alter(
            "a read-only config and another",
            ("log.retention.ms", SET, "5000"),
            ("num.partitions", SET, "5"),
        )
    one.alter("a key twice", ("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "2"))
    one.alter("set without a value", ("log.retention.ms", SET, None))


def refused_values(one: Configs, all_: Configs) -> None:
    for level in (one, all_):
        for name, value in (
            ("log.retention.ms", "soon"),
            ("log.retention.ms", ""),
            ("log.retention.ms", "0"),
            ("log.segment.bytes", "1"),
            ("message.max.bytes", "-1"),
            ("message.max.bytes", "2147483648"),
            ("compression.type", "zip"),
            ("log.cleanup.policy", "burn"),
            ("log.message.timestamp.type", "Never"),
            ("unclean.leader.election.enable", "maybe"),
            ("log.cleaner.min.cleanable.ratio", "1.5"),
            ("max.connections", "-1"),
            ("producer.id.expiration.ms", "0"),
            ("log.local.retention.ms", "99999999999"),
            ("group.consumer.assignment.interval.ms", "-1"),
            ("group.consumer.assignment.interval.ms", "15001"),
            ("num.io.threads", "0"),
            ("num.io.threads", "100"),
            ("background.threads", "1"),
            ("leader.replication.throttled.rate", "x"),
        ):
            level.alter(f"{name}={value}", (name, SET, value))


def cluster_wide(one: Configs, all_: Configs) -> None:
    name = "min.insync.replicas"
    all_.describe("all brokers", name)
    one.alter("min.insync.replicas of one broker", (name, SET, "2"))
    one.alter("reset min.insync.replicas of one broker", (name, DELETE, None))
    all_.alter("min.insync.replicas of all brokers", (name, SET, "2"))
    one.wait_for(name, "2")
    one.describe("min.insync.replicas of all brokers", name)
    Configs(one.transcript, TOPIC, "inherits").describe("a topic's", name)
    all_.alter("reset min.insync.replicas", (name, DELETE, None))
    all_.alter("invalid min.insync.replicas", (name, SET, "0"))
    all_.alter("min.insync.replicas of all brokers", (name, SET, "1"))
    one.wait_for(name, "1")


def without_effect(one: Configs, all_: Configs) -> None:
    """Names that are not the broker's own settings."""
    for level in (one, all_):
        for name, value in (("no.such.key", "5"), ("leader.replication.throttled.rate", "5")):
            level.alter("a config without effect", (name, SET, value))
            level.wait_until_described(name)
            level.describe("a config without effect", name)
            level.alter("delete it", (name, DELETE, None))
    name = "listener.name.plaintext.max.connections"
    one.alter("a config of a listener", (name, SET, "7"))
    one.wait_until_described(name)
    one.describe("a config of a listener", name, "max.connections")
    one.alter("delete it", (name, DELETE, None))
    one.alter("a secret", ("sasl.jaas.config", SET, "x"), differs=NOT_SAFE)
    one.alter("delete it", ("sasl.jaas.config", DELETE, None))
    all_.alter("a secret of all brokers", ("sasl.jaas.config", SET, "x"))


def replaced(one: Configs, all_: Configs) -> None:
    one.replace("replace all configs", log_retention_ms="5000", log_segment_bytes="2000000")
    one.wait_for("log.segment.bytes", "2000000")
    one.replace("replace all configs again", log_segment_bytes="3000000")
    one.wait_for("log.segment.bytes", "3000000")
    one.describe("after both", "log.retention.ms", "log.segment.bytes")
    one.replace("a read-only config", node_id="5")
    one.replace("an invalid value", log_segment_bytes="x")
    one.replace("no configs")
    one.wait_for("log.segment.bytes", "1073741824")
    all_.replace("all brokers, without min.insync.replicas", log_segment_bytes="2000000")
    all_.replace("all brokers", log_segment_bytes="2000000", min_insync_replicas="1")
    one.wait_for("log.segment.bytes", "2000000")
    all_.describe("all brokers")
    all_.replace("all brokers, reset", min_insync_replicas="1")
    one.wait_for("log.segment.bytes", "1073741824")
