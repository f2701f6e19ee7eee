"""The steps of a transcript, and its text: what Kafka answered and where Sawlog differs.

A block of the text is one step: `#` and its title, the request with the client that sent it, and
the response behind `->`. Where Sawlog differs on purpose, the reason and its own response follow.
"""

import copy
import difflib
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sawlog.protocol.apis import ApiKey, request_class, response_class
from sawlog.protocol.layout import lay_out
from transcripts.text_form import element, scalar

RESPONSE = "-> "
DIFFERS = "Sawlog differs: "
CONTEXT_LINES = 4


class Differs(NamedTuple):
    """Where Sawlog's response is not Kafka's on purpose: the reason, and its values by path."""

    reason: str
    values: Mapping[str, Any]

    def applied_to(self, response: Any) -> Any:
        """Kafka's response with Sawlog's values in it."""
        response = copy.deepcopy(response)
        for path, value in self.values.items():
            if not path:
                return value
            *parents, last = path.split(".")
            place = response
            for key in parents:
                place = place[int(key)] if isinstance(place, list) else place[key]
            if isinstance(place, list):
                place[int(last)] = value
            else:
                place[last] = value
        return response


class Request(NamedTuple):
    """A request as plain values; `note` stands in place of the fields of one that is not shown."""

    api: str
    version: int
    fields: Mapping[str, Any]
    note: str = ""

    def lines(self, name: str) -> list[str]:
        """The text of the request, with `name` for the API and its version."""
        if self.note:
            return [f"{name} {self.note}"]
        layout = lay_out(request_class(api_named(self.api)), self.version)
        return element(name, _as_json(self.fields), layout).lines()


class Step(NamedTuple):
    """One request and its response: plain values, or a text such as `<closed>`."""

    title: str
    request: Request | str
    response: Any
    differs: Differs | None = None
    client: str = ""

    def lines(self, versions: str) -> list[str]:
        """Title, request and response."""
        client = f"{self.client}: " if self.client else ""
        if isinstance(self.request, str):
            request = [f"{client}{self.request}"]
        else:
            request = self.request.lines(f"{client}{self.request.api} v{versions}")
        return [f"# {self.title}", *request, *self.response_lines(self.response)]

    def response_lines(self, response: Any) -> list[str]:
        response = _as_json(response)
        if not isinstance(response, dict) or isinstance(self.request, str):
            return [f"{RESPONSE}{scalar(response)}"]
        layout = lay_out(response_class(api_named(self.request.api)), self.request.version)
        found = element("", response, layout)
        lines = found.lines()
        if not found.head:
            lines = [line for child in found.children for line in child.lines()] or ["{}"]
        indent = " " * len(RESPONSE)
        return [(indent if number else RESPONSE) + line for number, line in enumerate(lines)]

    @property
    def version(self) -> int | None:
        return None if isinstance(self.request, str) else self.request.version

    def is_same_but_for_version(self, other: "Step") -> bool:
        """The two steps read the same, except for the version of the request."""
        return (
            self.version is not None
            and other.version is not None
            and self.differs is None
            and other.differs is None
            and self.lines("") == other.lines("")
        )


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def api_named(name: str) -> ApiKey:
    """`CreateTopics` to ApiKey.CREATE_TOPICS."""
    spelled = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return ApiKey[spelled.removeprefix("_").upper()]


def kafka_text(steps: Iterable[Step]) -> str:
    """The recording that these steps against Kafka make."""
    blocks: list[list[str]] = []
    for run in _runs(steps):
        step = run[0]
        block = step.lines(_versions(run))
        if step.differs is not None:
            response = step.differs.applied_to(step.response)
            block += [f"{DIFFERS}{step.differs.reason}", *step.response_lines(response)]
        blocks.append(block)
    return _joined(blocks)


def sawlog_text(steps: Iterable[Step], recording: str) -> str:
    """The text of these steps against Sawlog; where Sawlog differs, Kafka's part is copied from
    `recording`."""
    kafka_parts = (block for block in _blocks(recording) if len(block) > len(_kafka_part(block)))
    blocks: list[list[str]] = []
    for run in _runs(steps):
        step = run[0]
        block = step.lines(_versions(run))
        if step.differs is not None:
            own = [f"{DIFFERS}{step.differs.reason}", *step.response_lines(step.response)]
            block = [*_kafka_part(next(kafka_parts, block)), *own]
        blocks.append(block)
    return _joined(blocks)


def _runs(steps: Iterable[Step]) -> list[list[Step]]:
    """The steps; neighbours that are the same in several versions make one block."""
    runs: list[list[Step]] = []
    for step in steps:
        if runs and runs[-1][-1].is_same_but_for_version(step):
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


def _versions(run: list[Step]) -> str:
    """`7-11` for consecutive versions, else `3,9,12`."""
    versions = [step.version for step in run if step.version is not None]
    is_range = versions == [*range(versions[0], versions[0] + len(versions))] if versions else False
    if is_range and len(versions) > 1:
        return f"{versions[0]}-{versions[-1]}"
    return ",".join(map(str, versions))


def _joined(blocks: list[list[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _blocks(recording: str) -> list[list[str]]:
    return [block.splitlines() for block in recording.split("\n\n")]


def _kafka_part(block: list[str]) -> list[str]:
    return [*itertools.takewhile(lambda line: not line.startswith(DIFFERS), block)]


def diff(expected: str, found: str) -> str:
    """A unified diff of two transcripts, empty where they are the same."""
    lines = (expected.splitlines(), found.splitlines())
    compared = difflib.unified_diff(*lines, "recorded", "found", n=CONTEXT_LINES, lineterm="")
    return "\n".join(compared)
