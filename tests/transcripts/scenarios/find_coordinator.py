"""FindCoordinator, for one key and for several."""

from typing import Any

from transcripts.scenarios.group_members import wait_for_coordinator
from transcripts.transcript import Transcript

TRANSACTION, SHARE = 1, 2
NOT_AVAILABLE = 15
ODD = ("", " ", "a/b", "ünï", "x" * 300, "__consumer_offsets", "coordinators")


def run(transcript: Transcript) -> None:
    wait_for_coordinator(transcript, "coordinators")
    for version in range(4):
        transcript.request(
            "the coordinator of a group", "FindCoordinator", version, {"key": "coordinators"}
        )
    for version in range(4, 7):
        one = {"coordinator_keys": ["coordinators"]}
        transcript.request("the coordinator of a group, as a list", "FindCoordinator", version, one)
    for key in ODD:
        transcript.request("a group with an odd name", "FindCoordinator", 3, {"key": key})
    transcript.request("several groups", "FindCoordinator", 4, {"coordinator_keys": list(ODD)})
    transcript.request("no groups", "FindCoordinator", 4, {"coordinator_keys": []})
    twice = {"coordinator_keys": ["twice", "twice"]}
    transcript.request("the same group twice", "FindCoordinator", 6, twice)
    kinds(transcript)


def kinds(transcript: Transcript) -> None:
    for kind in (3, 127, -1):
        title = f"a coordinator of type {kind}"
        transcript.request(title, "FindCoordinator", 2, {"key": "x", "key_type": kind})
        transcript.request(
            title, "FindCoordinator", 4, {"coordinator_keys": ["x"], "key_type": kind}
        )
    transcript.request(
        "a share group in a version without them",
        "FindCoordinator",
        5,
        {"coordinator_keys": ["share:AAAAAAAAAAAAAAAAAAAAAQ:0"], "key_type": SHARE},
    )
    transaction(transcript)


def transaction(transcript: Transcript) -> None:
    fields: dict[str, Any] = {"key": "transaction", "key_type": TRANSACTION}
    transcript.wait_until(
        lambda: (
            transcript.request_unrecorded("FindCoordinator", 2, fields).error_code != NOT_AVAILABLE
        )
    )
    transcript.request(
        "the coordinator of a transaction",
        "FindCoordinator",
        2,
        fields,
    )
    several = {"coordinator_keys": ["transaction"], "key_type": TRANSACTION}
    transcript.request(
        "the coordinator of a transaction, as a list",
        "FindCoordinator",
        4,
        several,
    )
