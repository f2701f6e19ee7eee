"""Spark's parser: it accepts the corpus, and its plans have the relations that we find."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sawlog.pipeline.landing.driver.sql_parser import session_parser
from support.pipeline.sql_corpus import QUERIES
from support.programs import require

HEAD = "brokers: 127.0.0.1:1\nlake: lake\ntables:\n  t: {topic: t}\n"

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def relations(plan: Any, ctes: frozenset[str] = frozenset()) -> set[str]:
    """The names of all unresolved relations of a plan that are not CTEs."""
    kind = plan.getClass().getSimpleName()
    if kind == "UnresolvedWith":
        found: set[str] = set()
        for named in items(plan.cteRelations()):
            name = named._1().lower()
            own = {name} if plan.allowRecursion() else set()
            found |= relations(named._2(), ctes | own)
            ctes |= {name}
        return found | relations(plan.child(), ctes)
    if kind == "UnresolvedRelation":
        name = ".".join(items(plan.multipartIdentifier())).lower()
        return {name} - ctes
    below = [relations(child, ctes) for child in items(plan.children())]
    inside = [in_expression(part, ctes) for part in items(plan.expressions())]
    return set().union(*below, *inside)


def in_expression(expression: Any, ctes: frozenset[str]) -> set[str]:
    """The relations of subqueries in an expression."""
    has_plan = "plan" in {method.getName() for method in expression.getClass().getMethods()}
    found = relations(expression.plan(), ctes) if has_plan else set()
    return found.union(*(in_expression(part, ctes) for part in items(expression.children())))


def test_spark_finds_the_same_tables_in_every_query_of_the_corpus(spark: "SparkSession") -> None:
    parser = session_parser(spark)
    assert {sql: parser.error(sql) for sql in QUERIES if parser.error(sql)} == {}
    java_parser = spark._jsparkSession.sessionState().sqlParser()
    found = {sql: relations(java_parser.parseQuery(sql)) for sql in QUERIES}
    assert found == QUERIES


def test_spark_rejects_statements_that_are_not_queries(spark: "SparkSession") -> None:
    parser = session_parser(spark)
    assert parser.error("SELEC x FROM a") == (
        "syntax error at line 1, column 1: at or near 'SELEC' [PARSE_SYNTAX_ERROR]"
    )
    assert parser.error("INSERT INTO t SELECT 1") is not None
    assert parser.error("SHOW TABLES") is not None


@pytest.mark.spark
def test_check_reports_a_syntax_error_of_spark_s_parser(tmp_path: Path) -> None:
    require("java")
    file = tmp_path / "p.yaml"
    file.write_text(f"{HEAD}  bad: {{sql: SELEC x FROM t}}\n  good: {{sql: SELECT x FROM t}}\n")
    command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "bad: sql: syntax error at line 1, column 1: at or near 'SELEC'" in done.stdout
    assert "good: a query over t; the syntax of its SQL is valid" in done.stdout
    assert done.stderr == "starting Spark's parser ...\n"
    assert done.returncode == 1
