"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from typing import Any

from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN, TOPIC, BROKER, LOGGER = 0, 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE = "1"
REFUSED = {
    "error_code": "INVALID_REQUEST",
    "error_message": "<words>",
    "resource_type": TOPIC,
    "resource_name": "configs-w",
}
REFUSED_TWICE = Differs(KAFKA_FAILS, {"": {"throttle_time_ms": 0, "responses": [REFUSED] * 2}})


def described(name: str, value: str, source: int) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": 5,
        "documentation": None,
    }


TOGETHER = Differs(
    "Sawlog describes each resource once, with all requested keys, to bound the response",
    {
        "results": [
            {
                "error_code": "NONE",
                "error_message": "",
                "resource_type": TOPIC,
                "resource_name": "configs",
                "configs": [
                    described("flush.ms", "9223372036854775807", 5),
                    described("retention.ms", "1000", 1),
                ],
            }
        ]
    },
)
BAD_VALUES = (
    ("segment.bytes", "1"),
    ("segment.ms", "0"),
    ("retention.ms", "-2"),
    ("retention.bytes", "x"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "2147483648"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("min.insync.replicas", "0"),
    ("compression.type", "zip"),
    ("compression.gzip.level", "10"),
    ("preallocate", "perhaps"),
    ("message.timestamp.type", "Never"),
    ("cleanup.policy", "delete,,compact"),
    ("delete.retention.ms", "-1"),
)
UNKNOWN_OPERATION = Differs(KAFKA_FAILS, {"responses.0.error_code": "INVALID_REQUEST"})


def resource(name: str, keys: list[str] | None = None, kind: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def run(transcript: Transcript) -> None:
    transcript.create_topic("configs", retention_ms="1000", cleanup_policy="compact,delete")
    for version in (1, 2, 3, 4):
        some = resource("configs", ["retention.ms", "cleanup.policy", "segment.bytes"])
        for synonyms in (False, True):
            wanted = {"resources": [some], "include_synonyms": synonyms}
            transcript.request("three configs", "DescribeConfigs", version, wanted)
    everything = {"resources": [resource("configs")], "include_synonyms": True}
    transcript.request("all configs of a topic", "DescribeConfigs", 4, everything)
    documented = {"resources": [resource("configs", ["retention.ms"])]}
    documented["include_documentation"] = True
    transcript.request("with documentation", "DescribeConfigs", 4, documented)
    describe(transcript)
    incremental(transcript)
    alter(transcript)


def describe(transcript: Transcript) -> None:
    def ask(title: str, *resources: dict[str, Any], differs: Differs | None = None) -> None:
        transcript.request(
            title, "DescribeConfigs", 4, {"resources": list(resources)}, differs=differs
        )

    ask("no resources")
    ask("no keys", resource("configs", []))
    ask("an unknown key", resource("configs", ["no.such.key"]))
    ask("an unknown key and a known one", resource("configs", ["no.such.key", "retention.ms"]))
    ask("a key twice", resource("configs", ["retention.ms", "retention.ms"]))
    ask("an unknown topic", resource("configs-none"))
    ask("an invalid topic name", resource("not a name!"))
    ask("an empty name", resource(""))
    twice = (resource("configs", ["retention.ms"]), resource("configs", ["flush.ms"]))
    ask("a topic twice", *twice, differs=TOGETHER)
    ask("a topic and an unknown one", resource("configs", ["flush.ms"]), resource("c-none"))
    for kind in (UNKNOWN, 1, 3, 99):
        ask(f"resource type {kind}", resource("configs", kind=kind))
    keys = ["num.partitions", "node.id", "log.retention.hours", "message.max.bytes"]
    ask("a broker", resource(NODE, keys, BROKER))
    ask("another broker", resource("9", keys, BROKER))
    ask("a broker id that is not a number", resource("x", keys, BROKER))
    ask("all brokers", resource("", keys, BROKER))
    ask("an unknown key of a broker", resource(NODE, ["no.such.key"], BROKER))
    ask("a topic config of a broker", resource(NODE, ["retention.ms"], BROKER))
    synonyms = {"resources": [resource(NODE, keys, BROKER)], "include_synonyms": True}
    transcript.request("a broker, with synonyms", "DescribeConfigs", 4, synonyms)


def values_of(transcript: Transcript, title: str, topic: str) -> None:
    """Record the configs that are set on a topic, without defaults."""
    transcript.request(
        title,
        "DescribeConfigs",
        4,
        {"resources": [resource(topic)]},
        keep=lambda answer: {
            entry["name"]: entry["value"]
            for entry in answer["results"][0]["configs"]
            if entry["config_source"] == 1
        },
    )


def wait_for(transcript: Transcript, topic: str, key: str, value: str) -> None:
    request = {"resources": [resource(topic, [key])]}
    transcript.wait_until(
        lambda: (
            transcript.request_unrecorded("DescribeConfigs", 4, request).results[0].configs[0].value
            == value
        )
    )


def change(name: str, operation: int, value: str | None) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def altered(topic: str, *changes: dict[str, Any], kind: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": topic, "configs": list(changes)}


class IncrementalAlterer:
    """Sends IncrementalAlterConfigs requests."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def alter(
        self,
        title: str,
        *resources: dict[str, Any],
        version: int = 1,
        differs: Differs | None = None,
        **more: Any,
    ) -> None:
        api, fields = "IncrementalAlterConfigs", {"resources": list(resources), **more}
        self._transcript.request(title, api, version, fields, differs=differs)

    def alter_topic(self, title: str, *changes: dict[str, Any], **more: Any) -> None:
        self.alter(title, altered("configs-i", *changes), **more)


def incremental(transcript: Transcript) -> None:
    transcript.create_topic("configs-i", retention_ms="1000")
    alterer = IncrementalAlterer(transcript)
    one = alterer.alter_topic
    for version in (0, 1):
        one("set", change("retention.ms", SET, f"{version + 2}000"), version=version)
        wait_for(transcript, "configs-i", "retention.ms", f"{version + 2}000")
    values_of(transcript, "configs after set", "configs-i")
    one("append to a list", change("cleanup.policy", APPEND, "compact"))
    wait_for(transcript, "configs-i", "cleanup.policy", "delete,compact")
    values_of(transcript, "configs after append", "configs-i")
    one("append an existing value", change("cleanup.policy", APPEND, "compact"))
    one("subtract from a list", change("cleanup.policy", SUBTRACT, "delete"))
    wait_for(transcript, "configs-i", "cleanup.policy", "compact")
    values_of(transcript, "configs after subtract", "configs-i")
    one("subtract a missing value", change("cleanup.policy", SUBTRACT, "delete"))
    one("delete", change("retention.ms", DELETE, None))
    wait_for(transcript, "configs-i", "retention.ms", "604800000")
    values_of(transcript, "configs after delete", "configs-i")
    incremental_errors(alterer)
    values_of(transcript, "all configs that are set", "configs-i")


def incremental_errors(alterer: IncrementalAlterer) -> None:
    one = alterer.alter_topic
    one("delete a config that is not set", change("flush.ms", DELETE, None))
    one("delete an unknown config", change("no.such.key", DELETE, None))
    one("set an unknown config", change("no.such.key", SET, "1"))
    one("set without a value", change("retention.ms", SET, None))
    one("set to an empty value", change("retention.ms", SET, ""))
    one("set a number to text", change("retention.ms", SET, "soon"))
    one("append without a value", change("cleanup.policy", APPEND, None))
    one("append to a config that is not a list", change("retention.ms", APPEND, "1"))
    one("append an invalid value", change("cleanup.policy", APPEND, "burn"))
    one("subtract from a config that is not a list", change("retention.ms", SUBTRACT, "1"))
    one("an unknown operation", change("retention.ms", 9, "1"), differs=UNKNOWN_OPERATION)
    one("a key twice", change("flush.ms", SET, "1"), change("flush.ms", SET, "2"))
    for removed in ("message.format.version", "message.timestamp.difference.max.ms"):
        one("a config that Kafka removed", change(removed, SET, "1"))
    for key, value in BAD_VALUES:
        one(f"{key}={value}", change(key, SET, value))
    one("no changes")
    one(
        "a valid and an invalid change",
        change("flush.ms", SET, "5"),
        change("segment.ms", SET, "x"),
    )
    one("validate only", change("flush.ms", SET, "7"), validate_only=True)
    one("validate only, invalid", change("flush.ms", SET, "x"), validate_only=True)
    good = change("flush.ms", SET, "9")
    alterer.alter("an unknown topic", altered("configs-none", good))
    alterer.alter("an invalid topic name", altered("not a name!", good))
    alterer.alter("an empty name", altered("", good))
    alterer.alter("a resource twice", altered("configs-i", good), altered("configs-i", good))
    alterer.alter("no resources")
    for kind in (UNKNOWN, 1, 99):
        alterer.alter(f"resource type {kind}", altered("configs-i", good, kind=kind))


def alter(transcript: Transcript) -> None:
    transcript.create_topic("configs-w", retention_ms="1000", flush_ms="2000")

    def entry(name: str, value: str | None) -> dict[str, Any]:
        return {"name": name, "value": value}

    def ask(title: str, *entries: dict[str, Any], version: int = 2, **more: Any) -> None:
        fields = {"resources": [altered("configs-w", *entries)], **more}
        transcript.request(title, "AlterConfigs", version, fields)

    for version in (0, 1, 2):
        ask("replace all configs", entry("segment.ms", f"{version + 1}000"), version=version)
        wait_for(transcript, "configs-w", "segment.ms", f"{version + 1}000")
        values_of(transcript, "the other configs are reset", "configs-w")
    ask("an unknown key", entry("no.such.key", "1"))
    ask("an invalid value", entry("retention.ms", "x"))
    ask("no value", entry("retention.ms", None))
    ask("a key twice", entry("flush.ms", "1"), entry("flush.ms", "2"))
    ask("validate only", entry("flush.ms", "3"), validate_only=True)
    unknown = {"resources": [altered("configs-none", entry("flush.ms", "1"))]}
    transcript.request("an unknown topic", "AlterConfigs", 2, unknown)
    twice = {"resources": [altered("configs-w", entry("flush.ms", "1"))] * 2}
    transcript.request_unanswered_by_kafka(
        "a resource twice", "AlterConfigs", 2, twice, REFUSED_TWICE
    )
    other = {"resources": [altered("configs-w", entry("flush.ms", "1"), kind=99)]}
    transcript.request("resource type 99", "AlterConfigs", 2, other)
    values_of(transcript, "all configs that are set", "configs-w")
    ask("no changes")
    wait_for(transcript, "configs-w", "segment.ms", "604800000")
    values_of(transcript, "no config is set", "configs-w")
