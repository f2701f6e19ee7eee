"""All APIs that a broker advertises to clients; docs/protocol.md lists them."""

from typing import Any

from sawlog.protocol.apis import ApiKey, advertised_versions
from transcripts.scenarios.api_versions import SERVED_KEYS
from transcripts.steps import Differs
from transcripts.transcript import Transcript


def api_name(key: int) -> str:
    """ApiKey.CREATE_TOPICS to `CreateTopics`."""
    return ApiKey(key).name.title().replace("_", "")


def by_name(answer: dict[str, Any]) -> dict[str, Any]:
    entries = [{**entry, "api_key": api_name(entry["api_key"])} for entry in answer["api_keys"]]
    return {**answer, "api_keys": sorted(entries, key=lambda entry: entry["api_key"])}


def served(key: int) -> dict[str, Any]:
    first, last = advertised_versions(ApiKey(key))
    return {"api_key": api_name(key), "min_version": first, "max_version": last}


SERVED = Differs(
    "docs/protocol.md has the reason for each API that Sawlog does not serve",
    {"api_keys": sorted(map(served, SERVED_KEYS), key=lambda entry: entry["api_key"])},
)


def run(transcript: Transcript) -> None:
    transcript.request("all APIs", "ApiVersions", 0, keep=by_name, differs=SERVED)
