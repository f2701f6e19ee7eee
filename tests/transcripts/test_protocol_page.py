"""docs/protocol.md lists the APIs of Apache Kafka: those that the broker serves, and the others."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from sawlog.broker.dispatch import LOADERS
from sawlog.protocol.apis import ApiKey, advertised_versions
from support.sources import ROOT
from transcripts.scenarios.advertised_apis import api_name
from transcripts.scenarios.api_versions import NEWER_KEYS
from transcripts.steps import DIFFERS

PAGE = ROOT / "docs" / "protocol.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?: to (\d+))? \|(.*)\|$", re.MULTILINE)
ADVERTISED = re.compile(
    r"^ +api_keys (\w+)(?: min_version=(\d+))?(?: max_version=(\d+))?$", re.MULTILINE
)
REQUEST = re.compile(r"(\w+) (?:v\d|completes)")
TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


class Row(NamedTuple):
    """An API on the page; `remark` is what differs, or the reason why it is not served."""

    key: int
    versions: tuple[int, int]
    remark: str


def rows_under(heading: str) -> dict[str, Row]:
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    rows = [
        (name, Row(int(key), (int(first), int(last or first)), remark.strip()))
        for key, name, first, last, remark in ROW.findall(section)
    ]
    assert rows == sorted(rows, key=lambda row: row[1].key), "the rows are in the order of keys"
    assert len(rows) == section.count("\n| "), "a row cannot be read"
    return dict(rows)


@pytest.fixture
def served() -> dict[str, Row]:
    return rows_under("Served")


@pytest.fixture
def not_served() -> dict[str, Row]:
    return rows_under("Not served")


@pytest.fixture
def recordings() -> Path:
    """The directory with the responses of Apache Kafka; its name has the version."""
    (found,) = Path(__file__).parent.glob("kafka-*/advertised_apis.txt")
    return found.parent


@pytest.fixture
def advertised(recordings: Path) -> dict[str, tuple[int, int]]:
    """The APIs and versions in the ApiVersions response of Apache Kafka."""
    text = (recordings / "advertised_apis.txt").read_text().partition(DIFFERS)[0]
    return {
        name: (int(first or 0), int(last or 0)) for name, first, last in ADVERTISED.findall(text)
    }


def test_the_page_lists_the_served_apis_with_their_versions(served: dict[str, Row]) -> None:
    assert {name: row.versions for name, row in served.items()} == {
        api_name(key): advertised_versions(key) for key in LOADERS
    }


def test_each_api_that_kafka_advertises_is_in_one_of_the_tables(
    served: dict[str, Row],
    not_served: dict[str, Row],
    advertised: dict[str, tuple[int, int]],
) -> None:
    assert not served.keys() & not_served.keys()
    listed = served | not_served
    newer = {name: served[name].versions for name in map(api_name, NEWER_KEYS)}
    assert {name: row.versions for name, row in listed.items()} == advertised | newer
    assert all(last > advertised[name][1] for name, (_, last) in newer.items())
    assert {name: row.key for name, row in listed.items()} == {
        api_name(key): int(key) for key in ApiKey if api_name(key) in advertised
    }


def test_each_api_that_is_not_served_has_a_reason(not_served: dict[str, Row]) -> None:
    assert [name for name, row in not_served.items() if not row.remark] == []


def test_each_recorded_difference_is_mentioned(served: dict[str, Row], recordings: Path) -> None:
    blocks = [block for path in recordings.iterdir() for block in path.read_text().split("\n\n")]
    requests = [block.splitlines()[1] for block in blocks if f"\n{DIFFERS}" in block]
    differing = {match[1] for request in requests if (match := REQUEST.search(request))}
    assert "Produce" in differing
    assert sorted(name for name in differing if not served[name].remark) == []


def test_telemetry_is_not_advertised_as_in_kafka(advertised: dict[str, tuple[int, int]]) -> None:
    page = PAGE.read_text()
    for key in TELEMETRY:
        assert key not in LOADERS
        assert api_name(key) not in advertised
        assert api_name(key) in page


def test_the_page_names_the_version_of_kafka(recordings: Path) -> None:
    version = recordings.name.removeprefix("kafka-")
    assert f"Apache Kafka {version} " in PAGE.read_text()
