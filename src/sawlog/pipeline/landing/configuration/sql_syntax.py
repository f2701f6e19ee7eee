"""Syntax errors of a query's SQL, in one line each, with line and column.

Without Spark only the word that the SQL begins with is checked: a statement that is no query fills
no table. The rest is left to Spark's parser, whose messages are condensed. Columns count from 1.
"""

import re
from itertools import takewhile

from sawlog.core.config_warnings import near_names

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_FIRST = re.compile(r"\w+|\S")
_BEGINNINGS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "MAP", "REDUCE", "(")
_EXPECTED = "SELECT, WITH, FROM, TABLE, VALUES or '('"  # the others are obsolete forms of SELECT
_CONDITION = re.compile(r"\[([A-Z0-9_.]+)\] (.*?)\.?(?: SQLSTATE: \w+)?;?$")
_PLACE = re.compile(r";? \(?line (\d+),? pos (\d+)\)?;?$")


def check_first_word(sql: str) -> str | None:
    """What is wrong with the word that the SQL begins with; None where a query may begin so."""
    skipped = _SKIPPED.match(sql)
    at = skipped.end() if skipped is not None else 0
    if sql.count("/*", 0, at) > sql.count("*/", 0, at):
        return None  # nested comments, which Spark takes
    first = _FIRST.match(sql, at)
    word = "" if first is None else first[0]
    if word.upper() in _BEGINNINGS:
        return None
    line, column = sql.count("\n", 0, at) + 1, at - sql.rfind("\n", 0, at)
    found = repr(word) if word else "the end"
    return (
        f"syntax error at line {line}, column {column}: expected {_EXPECTED}, found"
        f" {found}{near_names(word.upper(), _BEGINNINGS)}"
    )


def condense_spark_error(text: str) -> str:
    """What Spark says of SQL that it does not take, without the SQL and the plan behind it."""
    lines = takewhile(lambda line: not line.startswith("=="), text.strip().splitlines())
    first = next(iter(lines), "").strip()
    place = _PLACE.search(first)
    told = _CONDITION.match(first if place is None else first[: place.start()])
    if told is None:
        return first
    condition, words = told.groups()
    if place is None:
        return f"{words} [{condition}]"
    where = f"line {place[1]}, column {int(place[2]) + 1}"
    near = words.removeprefix("Syntax error").lstrip(", ")
    if near != words:
        return f"syntax error at {where}: {near} [{condition}]"
    return f"{words} ({where}) [{condition}]"
