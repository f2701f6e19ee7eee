"""DescribeClientQuotas on a broker without quotas."""

from typing import Any

from transcripts.transcript import Transcript

EXACT, DEFAULT, SPECIFIED = range(3)
KINDS = ("user", "client-id", "ip")


def component(entity_type: str, match_type: int = SPECIFIED, match: str | None = None) -> Any:
    return {"entity_type": entity_type, "match_type": match_type, "match": match}


def run(transcript: Transcript) -> None:
    def ask(title: str, *components: Any, strict: bool = False) -> None:
        fields = {"components": list(components), "strict": strict}
        for version in (0, 1):
            transcript.request(title, "DescribeClientQuotas", version, fields)

    ask("all quotas")
    ask("strictly no entity", strict=True)
    for kind in KINDS:
        ask(f"any {kind}", component(kind))
        ask(f"the default {kind}", component(kind, DEFAULT))
        ask(f"one {kind}", component(kind, EXACT, "anna"))
    ask("a user and a client id", component("user", EXACT, "anna"), component("client-id"))
    ask("the same strictly", component("user"), component("client-id"), strict=True)
    ask("an empty entity type", component(""))
    ask("an unknown entity type", component("group"))
    ask("an entity type in another case", component("User"))
    ask("an entity type twice", component("user"), component("user", EXACT, "anna"))
    ask("an unknown entity type twice", component("group"), component("group"))
    ask("an address and a user", component("ip"), component("user"))
    ask("an address and a client id", component("client-id"), component("ip"))
    ask("an exact match without a name", component("user", EXACT))
    ask("an exact match of an empty name", component("user", EXACT, ""))
    ask("a default match with a name", component("user", DEFAULT, "anna"))
    ask("any entity, with a name", component("user", SPECIFIED, "anna"))
    ask("an unknown match type", component("user", 3))
    ask("a negative match type", component("user", -1))
    ask("a valid component and an invalid one", component("user"), component("ip", EXACT))
