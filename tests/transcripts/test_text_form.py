"""The text form of a transcript shows every difference between two responses."""

from typing import Any

import pytest

from transcripts.steps import Differs, Request, Step, diff, kafka_text, sawlog_text


def topic(name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "partition_responses": list(partitions)}


def partition(index: int, base_offset: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": index, "error_code": "NONE", "base_offset": base_offset, **fields}


def produce(*topics: dict[str, Any], version: int = 9, differs: Differs | None = None) -> Step:
    sent = {"index": 0, "records": "<69 bytes>"}
    request = Request(
        "Produce", version, {"acks": -1, "topic_data": [{"name": "a", "partition_data": [sent]}]}
    )
    response = {"responses": list(topics), "throttle_time_ms": 0}
    return Step("one record", request, response, differs)


def text(*steps: Step) -> list[str]:
    return kafka_text(steps).splitlines()


def test_a_step_is_its_title_its_request_and_its_response() -> None:
    assert text(produce(topic("a", partition(0)))) == [
        "# one record",
        "Produce v9 acks=-1 | a-0 records=<69 bytes>",
        "-> a-0 NONE base_offset=0",
    ]


def test_every_partition_has_a_line() -> None:
    found = text(produce(topic("a", partition(0), partition(1)), topic("b", partition(0))))
    assert found[2:] == [
        "-> a-0 NONE base_offset=0",
        "   a-1 NONE base_offset=0",
        "   b-0 NONE base_offset=0",
    ]


def test_a_topic_that_appears_twice_is_not_a_topic_with_two_partitions() -> None:
    together = text(produce(topic("a", partition(0), partition(1))))
    apart = text(produce(topic("a", partition(0)), topic("a", partition(1))))
    assert [line for line in apart if line not in together] == ["   a again"]


def test_a_topic_without_partitions_has_a_line() -> None:
    assert text(produce(topic("a")))[2:] == ["-> a partition_responses=[]"]


@pytest.mark.parametrize("log_start_offset", [0, 7, "<any>"])
def test_a_field_that_is_not_the_default_is_shown(log_start_offset: Any) -> None:
    found = text(produce(topic("a", partition(0, log_start_offset=log_start_offset))))
    assert found[2:] == [f"-> a-0 NONE base_offset=0 log_start_offset={log_start_offset}"]


def test_a_field_with_its_default_is_left_out() -> None:
    found = text(produce(topic("a", partition(0, log_start_offset=-1, error_message=None))))
    assert found[2:] == ["-> a-0 NONE base_offset=0"]


def test_null_and_the_empty_string_are_different() -> None:
    found = text(produce(topic("a", partition(0, error_message=""))))
    assert found[2:] == ['-> a-0 NONE base_offset=0 error_message=""']


def test_versions_with_the_same_response_share_a_block() -> None:
    steps = [produce(topic("a", partition(0)), version=version) for version in (5, 6, 7)]
    assert text(*steps) == [
        "# one record",
        "Produce v5-7 acks=-1 | a-0 records=<69 bytes>",
        "-> a-0 NONE base_offset=0",
    ]


def test_a_version_with_another_response_has_a_block_of_its_own() -> None:
    first, second = (
        produce(topic("a", partition(0, version)), version=version) for version in (5, 6)
    )
    assert [line for line in text(first, second) if line.startswith("Produce")] == [
        "Produce v5 acks=-1 | a-0 records=<69 bytes>",
        "Produce v6 acks=-1 | a-0 records=<69 bytes>",
    ]


def test_an_intended_difference_is_shown_below_the_response_of_kafka() -> None:
    differs = Differs("Sawlog counts from 5", {"responses.0.partition_responses.0.base_offset": 5})
    recording = kafka_text([produce(topic("a", partition(0)), differs=differs)])
    assert recording.splitlines()[2:] == [
        "-> a-0 NONE base_offset=0",
        "Sawlog differs: Sawlog counts from 5",
        "-> a-0 NONE base_offset=5",
    ]
    as_intended = produce(topic("a", partition(0, 5)), differs=differs)
    assert diff(recording, sawlog_text([as_intended], recording)) == ""


def test_another_difference_than_the_intended_one_is_found() -> None:
    differs = Differs("Sawlog counts from 5", {"responses.0.partition_responses.0.base_offset": 5})
    recording = kafka_text([produce(topic("a", partition(0)), differs=differs)])
    found = sawlog_text([produce(topic("a", partition(0, 6)), differs=differs)], recording)
    changed = [line for line in diff(recording, found).splitlines()[2:] if line[0] in "+-"]
    assert changed == ["--> a-0 NONE base_offset=5", "+-> a-0 NONE base_offset=6"]
