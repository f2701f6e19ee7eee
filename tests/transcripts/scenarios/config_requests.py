"""Requests of the config APIs, for the scenarios about configs."""

from collections.abc import Callable
from typing import Any

from transcripts.steps import Differs
from transcripts.transcript import Transcript

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE = "1"

Change = tuple[str, int, str | None]


def described(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], "include_synonyms": True}


def changed(kind: int, name: str, *changes: Change) -> dict[str, Any]:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return {"resources": [resource]}


class Configs:
    """The configs of one resource."""

    def __init__(self, transcript: Transcript, kind: int, name: str) -> None:
        self.transcript = transcript
        self._kind = kind
        self._name = name

    def alter(
        self, title: str, *changes: Change, differs: Differs | None = None, **more: bool
    ) -> None:
        fields = {**changed(self._kind, self._name, *changes), **more}
        self.transcript.request(title, "IncrementalAlterConfigs", 1, fields, differs=differs)

    def replace(self, title: str, differs: Differs | None = None, **configs: str) -> None:
        entries = [
            {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
        ]
        resource = {
            "resource_type": self._kind,
            "resource_name": self._name,
            "configs": entries,
        }
        fields = {"resources": [resource]}
        self.transcript.request(title, "AlterConfigs", 2, fields, differs=differs)

    def describe(self, title: str, *keys: str, **more: Any) -> None:
        fields = described(self._kind, self._name, list(keys) or None)
        self.transcript.request(title, "DescribeConfigs", 4, fields, **more)

    def wait_for(self, key: str, value: str | None) -> None:
        """Wait until the resource shows this value."""
        self._wait_until(key, lambda values: values == [value])

    def wait_until_described(self, key: str) -> None:
        """Wait for a config that is described only while it is set."""
        self._wait_until(key, lambda values: len(values) == 1)

    def _wait_until(self, key: str, condition: Callable[[list[str | None]], bool]) -> None:
        fields = described(self._kind, self._name, [key])

        def is_met() -> bool:
            result = self.transcript.request_unrecorded("DescribeConfigs", 4, fields).results[0]
            return condition([entry.value for entry in result.configs])

        self.transcript.wait_until(is_met)


def entries_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = response["results"][0]["configs"]
    return entries
