"""Spark's own parser, the only judge of a query's syntax, and its messages in one line.

The parser needs Spark's JVM but no session, so `sawlog pipeline check` starts only the JVM.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sawlog.pipeline.landing.driver.spark_session import SparkDidNotStart, without_java_frames
from sawlog.pipeline.landing.driver.stderr_capture import captured_stderr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITION = re.compile(r"\[([A-Z0-9_.]+)\] (.*?)\.?(?: SQLSTATE: \w+)?;?$")
_POSITION = re.compile(r";? \(?line (\d+),? pos (\d+)\)?;?$")
_EXIT_TIMEOUT_S = 10.0


class SqlParser:
    """A Java parser object: that of a session, or one without a session."""

    def __init__(self, java_parser: Any) -> None:
        self._parser = java_parser

    def error(self, sql: str) -> str | None:
        """Why `sql` is not a query; None if it is. Statements such as INSERT are errors."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import ParseException

        try:
            self._parser.parseQuery(sql)
        except ParseException as error:
            return condense_spark_error(str(error))
        except Py4JJavaError as error:  # without a session PySpark converts no exceptions
            thrown = error.java_exception
            if not thrown.getClass().getName().endswith("ParseException"):
                return f"Spark's parser failed: {thrown.toString()}"
            return condense_spark_error(thrown.getMessage() or thrown.toString())
        return None


def session_parser(spark: "SparkSession") -> SqlParser:
    return SqlParser(spark._jsparkSession.sessionState().sqlParser())  # noqa: SLF001


@contextmanager
def standalone_parser() -> Iterator[SqlParser]:
    """A parser in a JVM of its own, which ends with the block; raises SparkDidNotStart."""
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    try:
        with captured_stderr() as captured:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except PySparkException as error:
        message = without_java_frames(captured.last()) or str(error)
        raise SparkDidNotStart(message) from error
    try:
        yield SqlParser(gateway.jvm.org.apache.spark.sql.execution.SparkSqlParser())
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when its input does
        try:
            gateway.proc.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()


def condense_spark_error(text: str) -> str:
    """The first line of a Spark error without the SQL and the plan; columns count from 1."""
    lines = takewhile(lambda line: not line.startswith("=="), text.strip().splitlines())
    first = next(iter(lines), "").strip()
    position = _POSITION.search(first)
    match = _CONDITION.match(first if position is None else first[: position.start()])
    if match is None:
        return first
    condition, message = match.groups()
    if position is None:
        return f"{message} [{condition}]"
    where = f"line {position[1]}, column {int(position[2]) + 1}"
    near = message.removeprefix("Syntax error").lstrip(", ")
    if near != message:
        return f"syntax error at {where}: {near} [{condition}]"
    return f"{message} ({where}) [{condition}]"
