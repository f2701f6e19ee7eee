"""ApiVersions, unsupported versions, and invalid frames."""

import struct
from typing import Any

from transcripts.steps import Differs, api_named
from transcripts.transcript import Transcript

SERVED = (
    "Produce Fetch ListOffsets Metadata ApiVersions CreateTopics DeleteTopics DeleteRecords"
    " InitProducerId DescribeProducers OffsetForLeaderEpoch DescribeConfigs AlterConfigs"
    " CreatePartitions IncrementalAlterConfigs DescribeCluster DescribeTopicPartitions"
    " FindCoordinator JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch"
    " OffsetDelete ListGroups DescribeGroups DeleteGroups ConsumerGroupHeartbeat"
    " ConsumerGroupDescribe DescribeAcls CreateAcls DeleteAcls DescribeLogDirs AlterReplicaLogDirs"
    " DescribeClientQuotas DescribeUserScramCredentials ListConfigResources ElectLeaders"
    " AlterPartitionReassignments ListPartitionReassignments AddPartitionsToTxn AddOffsetsToTxn"
    " EndTxn WriteTxnMarkers DescribeTransactions ListTransactions TxnOffsetCommit"
)
SERVED_KEYS = {int(api_named(name)) for name in SERVED.split(" ")}
NEWER_KEYS = {int(api_named(name)) for name in ("ApiVersions", "DeleteGroups", "TxnOffsetCommit")}
"""APIs with versions that the recorded Kafka does not have yet."""
NEWER = "the versions are those of Kafka 4.4"
NEWER_VERSIONS = Differs(
    NEWER,
    {"api_keys.0.max_version": 5, "api_keys.1.max_version": 6, "api_keys.2.max_version": 3},
)
SOFTWARE = {"client_software_name": "script", "client_software_version": "1.0"}
SUPPORTED = [
    {"name": "group.version", "min_version": 0, "max_version": 1},
    {"name": "transaction.version", "min_version": 0, "max_version": 2},
]
FINALIZED = [
    {"name": "group.version", "max_version_level": 1, "min_version_level": 1},
    {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2},
]
FEATURES = {
    3: Differs(
        "other features of Kafka are not supported",
        {"supported_features": [], "finalized_features": FINALIZED},
    ),
    4: Differs(
        "other features of Kafka are not supported",
        {"supported_features": SUPPORTED, "finalized_features": FINALIZED},
    ),
}


def only_served(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the APIs that Sawlog supports; Kafka lists more. `only_newer` keeps the others."""
    kept = [entry for entry in answer["api_keys"] if entry["api_key"] in SERVED_KEYS - NEWER_KEYS]
    if answer.get("finalized_features_epoch", -1) >= 0:
        answer["finalized_features_epoch"] = "<some>"
    return {**answer, "api_keys": kept}


def only_newer(answer: dict[str, Any]) -> dict[str, Any]:
    kept = [entry for entry in answer["api_keys"] if entry["api_key"] in NEWER_KEYS]
    return {**answer, "api_keys": sorted(kept, key=lambda entry: entry["api_key"])}


def header(api_key: int, version: int, correlation_id: int = 7, *, tags: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1) + b"\0" * tags


def run(transcript: Transcript) -> None:
    for version in (0, 1, 2):
        transcript.request("supported versions", "ApiVersions", version, keep=only_served)
    transcript.request(
        "versions that are newer than the recording",
        "ApiVersions",
        0,
        keep=only_newer,
        differs=NEWER_VERSIONS,
    )
    for version in (3, 4):
        transcript.request(
            "supported versions, with client software name",
            "ApiVersions",
            version,
            SOFTWARE,
            keep=only_served,
            differs=FEATURES[version],
        )
    for name, software in [("", "1.0"), ("script", ""), ("bad name", "1.0"), ("-script", "1.0")]:
        transcript.request(
            f"client software {name!r} {software!r}",
            "ApiVersions",
            3,
            {"client_software_name": name, "client_software_version": software},
        )
    served = Differs(NEWER, {"": "00000007002300000001001200000005"})
    transcript.send_frame(
        "ApiVersions in an unsupported version", header(18, 99, tags=True), differs=served
    )
    transcript.send_frame(
        "ApiVersions in an unsupported version, with an unknown body", header(18, 6) + b"\1\2\3"
    )
    transcript.send_frame("ApiVersions in a negative version", header(18, -1), differs=served)
    unserved_versions(transcript)
    broken_frames(transcript)


def unserved_versions(transcript: Transcript) -> None:
    transcript.send_frame("Produce v2: advertised but not supported", header(0, 2) + bytes(20))
    transcript.send_frame("Produce in an unsupported version", header(0, 99, tags=True))
    transcript.send_frame("Fetch v3, which was removed", header(1, 3) + bytes(40))
    transcript.send_frame(
        "Metadata in an unsupported version", header(3, 99, tags=True) + b"\0\0\0\0"
    )
    transcript.send_frame("Metadata in a negative version", header(3, -5) + bytes(4))
    transcript.send_frame("LeaderAndIsr, which was removed", header(4, 0) + bytes(40))
    transcript.send_frame("an unknown API key", header(999, 0))
    transcript.send_frame("a negative API key", header(-3, 0))


def broken_frames(transcript: Transcript) -> None:
    transcript.send_frame("an empty frame", b"")
    transcript.send_frame("a truncated header", b"\0\3\0")
    transcript.send_frame(
        "a client id that exceeds the frame", struct.pack(">hhih", 3, 1, 7, 30_000)
    )
    transcript.send_frame("a truncated body", header(3, 1) + b"\0\0")
    transcript.send_frame("an array that exceeds the frame", header(3, 1) + b"\x7f\xff\xff\xff")
    transcript.send_frame(
        "an array length below -1", header(19, 2) + b"\xff\xff\xff\xf0" + bytes(5)
    )
    transcript.send_frame("null for a non-nullable topic name", header(3, 1) + b"\0\0\0\1\xff\xff")
    transcript.send_frame("a negative frame length", struct.pack(">i", -1), raw=True)
    transcript.send_frame("a frame length above the limit", struct.pack(">i", 0x7FFFFFFF), raw=True)
    transcript.send_frame("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", raw=True)
