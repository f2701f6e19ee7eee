"""FindCoordinator: who keeps a group, asked for one by one and for several at once."""

from typing import Any

from transcripts.chapters.groups_requests import coordinator_is_ready
from transcripts.dialogue import Dialogue, Differs

TRANSACTION, SHARE = 1, 2
NOT_AVAILABLE = 15
ODD = ("", " ", "a/b", "ünï", "x" * 300, "__consumer_offsets", "coordinators")
NO_TRANSACTIONS = "Sawlog has no transactions yet, and says so"
NOWHERE = {"node_id": -1, "host": "", "port": -1, "error_message": "<words>"}
FINAL = {"error_code": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", **NOWHERE}


def chapter(talk: Dialogue) -> None:
    coordinator_is_ready(talk, "coordinators")
    for version in range(4):
        talk.ask("who keeps a group", "FindCoordinator", version, {"key": "coordinators"})
    for version in range(4, 7):
        one = {"coordinator_keys": ["coordinators"]}
        talk.ask("who keeps a group, in a list of one", "FindCoordinator", version, one)
    for key in ODD:
        talk.ask("a group with an odd name", "FindCoordinator", 3, {"key": key})
    talk.ask("several at once", "FindCoordinator", 4, {"coordinator_keys": list(ODD)})
    talk.ask("none at all", "FindCoordinator", 4, {"coordinator_keys": []})
    twice = {"coordinator_keys": ["twice", "twice"]}
    talk.ask("the same group twice", "FindCoordinator", 6, twice)
    kinds(talk)


def kinds(talk: Dialogue) -> None:
    for kind in (3, 127, -1):
        title = f"a coordinator of kind {kind}"
        talk.ask(title, "FindCoordinator", 2, {"key": "x", "key_type": kind})
        talk.ask(title, "FindCoordinator", 4, {"coordinator_keys": ["x"], "key_type": kind})
    talk.ask(
        "a share group before there were any",
        "FindCoordinator",
        5,
        {"coordinator_keys": ["share:AAAAAAAAAAAAAAAAAAAAAQ:0"], "key_type": SHARE},
    )
    transaction(talk)


def transaction(talk: Dialogue) -> None:
    fields: dict[str, Any] = {"key": "transaction", "key_type": TRANSACTION}
    talk.wait(lambda: talk.quietly("FindCoordinator", 2, fields).error_code != NOT_AVAILABLE)
    talk.ask(
        "who keeps a transaction",
        "FindCoordinator",
        2,
        fields,
        differs=Differs(NO_TRANSACTIONS, FINAL),
    )
    several = {"coordinator_keys": ["transaction"], "key_type": TRANSACTION}
    differs = Differs(
        NO_TRANSACTIONS, {f"coordinators.0.{key}": value for key, value in FINAL.items()}
    )
    talk.ask("who keeps transactions", "FindCoordinator", 4, several, differs=differs)
