"""Environment variables in the pipeline file: substituted in values, never shown in errors."""

from collections.abc import Mapping

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import parse_pipeline
from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile

SECRET = "S3cret-Word"


def parsed(text: str, **environment: str) -> PipelineConfig:
    return parse_pipeline("/where/p.yaml", text, environment)


def table_of(lines: str, **environment: str) -> LandedTable:
    text = f"brokers: b:1\nlake: ./lake\ntables:\n  t:\n    topic: a\n{lines}"
    (table,) = parsed(text, **environment).landed
    return table


def refusal(lines: str, **environment: str) -> str:
    with pytest.raises(BadPipelineFile) as caught:
        table_of(lines, **environment)
    return str(caught.value).removeprefix("/where/p.yaml:")


@pytest.mark.parametrize(
    ("written", "environment", "group"),
    [
        ("${TEAM}", {"TEAM": "one"}, "one"),
        ("lake-${TEAM}-${REGION:-eu}", {"TEAM": "one"}, "lake-one-eu"),
        ("${TEAM:-two}", {"TEAM": "one"}, "one"),
        ("${TEAM:-two}", {"TEAM": ""}, "two"),
        ("'${TEAM}'", {"TEAM": "one"}, "one"),
        ("$$ $${TEAM} $TEAM 5$", {"TEAM": "one"}, "$ ${TEAM} $TEAM 5$"),
        ("${TEAM}", {"TEAM": "${REGION} $$"}, "${REGION} $$"),
        ("x${TEAM:-}", {}, "x"),
        ('"${TEAM}: [1"', {"TEAM": "a: b"}, "a: b: [1"),
    ],
)
def test_variables_are_replaced_in_values(
    written: str, environment: Mapping[str, str], group: str
) -> None:
    assert table_of(f"    group: {written}\n", **environment).group == group


def test_variables_are_replaced_in_lists_mappings_and_aliases_but_not_in_keys() -> None:
    text = (
        "brokers: [&b '${HOST}:1', *b]\nlake: ${ROOT}/lake\n"
        "spark: {'spark.${HOST}': '${HOST}'}\ntables: {t: {topic: a}}\n"
    )
    pipeline = parsed(text, HOST="h$$", ROOT="/r")
    assert (pipeline.brokers, pipeline.lake) == ("h$$:1,h$$:1", "/r/lake")
    assert pipeline.spark == {"spark.${HOST}": "h$$"}


def test_all_variables_that_are_not_set_are_reported_with_their_lines() -> None:
    found = refusal("    group: ${TEAM}\n    isolation: x-${LEVEL}\n")
    advice = "is not set; set it, or give a default:"
    assert found == (
        f"6: the environment variable 'TEAM' {advice} ${{TEAM:-default}}\n"
        f"/where/p.yaml:7: the environment variable 'LEVEL' {advice} ${{LEVEL:-default}}"
    )


@pytest.mark.parametrize("written", ["${}", "${TEAM", "${1}", "${TEAM-x}", "a${TEAM:x}"])
def test_malformed_variables_are_refused(written: str) -> None:
    assert refusal(f"    group: '{written}'\n", TEAM="x") == (
        "6: expected ${NAME} or ${NAME:-default}, or $$ for a dollar"
    )


HIDDEN = "does not fit here; values of variables are not shown"
TIME = "earliest, latest or a time with its zone (2025-01-31T12:00:00Z)"
READERS = (
    "'t' and 'u' read the topic 'a' as the group '${X}': each needs a group of its own for its"
    " offsets"
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("    start: ${X}\n", f"6: start: expected {TIME}, not '${{X}}'"),
        (
            "    commit:\n      every: '${X}'\n",
            "7: every: expected a time like 500ms, 10s, 1m or 2h, not '${X}'",
        ),
        ("    commit: ${X}\n", f"6: the value of ${{X}} {HIDDEN}"),
        ("    format: json\n    schema: a ${X}\n", f"7: the value of a ${{X}} {HIDDEN}"),
        ("    partition_by: [topic, 'date(${X})']\n", f"6: the value of date(${{X}}) {HIDDEN}"),
        ("    format: avro\n    schema: ${X}.avsc\n", f"7: the value of ${{X}}.avsc {HIDDEN}"),
        ("    group: '${X}'\n  u: {topic: a, group: '${X}'}\n", f"4: tables: {READERS}"),
    ],
)
def test_errors_show_variables_and_never_their_values(lines: str, told: str) -> None:
    found = refusal(lines, X=SECRET)
    assert found == told
    assert SECRET not in found


def test_a_value_that_is_empty_is_reported_by_its_variable() -> None:
    assert refusal("    group: ${X}\n", X="") == (
        "6: the value of ${X} does not fit here; values of variables are not shown"
    )
