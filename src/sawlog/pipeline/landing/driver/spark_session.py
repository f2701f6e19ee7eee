"""Spark for a pipeline: quiet, in UTC, and on loopback if it is local."""

import logging
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sawlog.pipeline.formats.compile_ahead import is_compiled
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from sawlog.pipeline.landing.driver.query_supervisor import SPARK_GONE_ERRORS
from sawlog.pipeline.landing.driver.stderr_capture import captured_stderr
from sawlog.pipeline.landing.failures import parse_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG_SETTINGS = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
# We report failures in one line. These loggers would repeat them, and report a stopped query
# as failed.
_SILENCED = (
    "TaskContextImpl", "api.python", "broadcast", "executor", "scheduler",
    "sql.execution.datasources", "sql.execution.streaming",
)  # fmt: skip
_TASK_TRIES = 4
# No record of a landing passes through the JVM, and the optimising compiler takes half of the
# processor time of its start.
_LANDING_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_DAEMON = "sawlog.pipeline.landing.task.worker_daemon"
STILL_STARTING_S = 5.0


class SparkDidNotStart(Exception):
    """Spark's JVM did not start; the message is its output."""


class SparkJvmExited(Exception):
    """Spark's JVM exited: killed, out of memory, or by a signal to the process group."""


@contextmanager
def spark_context(
    pipeline: PipelineConfig,
    master: str | None,
    *,
    verbose: bool = False,
    still_starting: "Callable[[float], None]" = lambda _: None,
) -> "Iterator[SparkContext]":
    """A SparkContext for the block. Output of Spark and its workers is shown only with `verbose`.

    `still_starting` is called every few seconds with the seconds since the start.
    """
    build = partial(build_context, pipeline, master, verbose=verbose)
    context = (
        _in_another_thread(build, still_starting)
        if verbose
        else _build_quiet(build, still_starting)
    )
    try:
        try:
            yield context
        finally:
            context.stop()
    except SPARK_GONE_ERRORS as error:
        raise SparkJvmExited(
            "Spark's JVM exited, by a signal or out of memory (set spark.driver.memory in the"
            " file); committed batches are safe, and the next run continues from there"
        ) from error


@contextmanager
def session(
    pipeline: PipelineConfig, master: str | None, *, verbose: bool = False
) -> "Iterator[SparkSession]":
    """A SparkSession for the block."""
    with spark_context(pipeline, master, verbose=verbose) as context:
        spark = query_session(context)
        try:
            yield spark
        finally:
            spark.stop()


def _build_quiet(
    build: "Callable[[], SparkContext]", still_starting: "Callable[[float], None]"
) -> "SparkContext":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with captured_stderr() as captured:
            context = _in_another_thread(build, still_starting)
    except PySparkException as error:  # there is no JVM
        raise SparkDidNotStart(without_java_frames(captured.last()) or str(error)) from error
    except SPARK_GONE_ERRORS as error:
        output = without_java_frames(captured.last()) or "nothing; its JVM exited during the start"
        raise SparkDidNotStart(output) from error
    except Py4JError as error:  # invalid settings
        raise SparkDidNotStart(parse_failure(str(error)).message) from error
    counter = context._accumulatorServer  # noqa: SLF001
    counter.handle_error = _ignore_error  # type: ignore[method-assign, assignment]
    return context


def _in_another_thread(
    build: "Callable[[], SparkContext]", still_starting: "Callable[[float], None]"
) -> "SparkContext":
    """Call `build` in another thread. In the main thread PySpark would replace our Ctrl-C handler
    by one that calls the JVM in the middle of another call.
    """
    built: Future[SparkContext] = Future()
    began_s = time.monotonic()

    def work() -> None:
        try:
            built.set_result(build())
        except BaseException as error:
            built.set_exception(error)

    threading.Thread(target=work, name="sawlog-spark-start", daemon=True).start()
    while True:
        try:
            return built.result(STILL_STARTING_S)
        except TimeoutError:
            if built.done():
                raise
            still_starting(time.monotonic() - began_s)


def _ignore_error(*_: object) -> None:
    """Replaces PySpark's traceback for a JVM that exited, which happens at the end of every run."""


def without_java_frames(text: str) -> str:
    """The output of a JVM without stack frames."""
    noise = ("\tat ", "\t... ", "WARNING: Using incubator modules")
    return "\n".join(line for line in text.splitlines() if not line.startswith(noise))


def build_context(
    pipeline: PipelineConfig, master: str | None, *, verbose: bool = False
) -> "SparkContext":
    """Create the context with the settings of the file over ours.

    Landings need no more: a SparkSession would take seconds, which only queries need.
    """
    from pyspark import SparkConf, SparkContext

    wanted = _master(pipeline, master)
    settings = {
        "spark.app.name": f"sawlog pipeline {Path(pipeline.file).name}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.stopTimeout": "60s",
        # For a Python process to connect to a busy JVM; the default is 15 s.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.scheduler.mode": "FAIR",
    }
    java_options = [] if pipeline.queries else [*_LANDING_JVM]
    if wanted.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": _DAEMON,  # executors elsewhere may lack this package
        }
    settings |= pipeline.spark
    # Only spark-submit honours the setting.
    python = settings.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", python)
    with _log_settings(verbose) as options:
        java_options += [options, settings.get("spark.driver.extraJavaOptions", "")]
        settings["spark.driver.extraJavaOptions"] = " ".join(java_options).strip()
        return SparkContext.getOrCreate(
            SparkConf().setMaster(wanted).setAll(list(settings.items()))
        )


def formats_to_compile(pipeline: PipelineConfig, master: str | None) -> list[str]:
    """The formats whose parsers are to be compiled on this machine, once.

    Executors on other machines compile for themselves.
    """
    formats = sorted({table.format for table in pipeline.landed})
    is_needed = _master(pipeline, master).startswith("local") and not is_compiled(formats)
    return formats if is_needed else []


def _master(pipeline: PipelineConfig, master: str | None) -> str:
    return master or pipeline.spark.get("spark.master") or f"local[*,{_TASK_TRIES}]"


def query_session(context: "SparkContext") -> "SparkSession":
    """The session of this context, with our sources."""
    from pyspark.sql import SparkSession

    spark = SparkSession(context)
    register(spark)
    return spark


def in_own_pool(context: "SparkContext", name: str) -> None:
    """Give this thread's jobs a scheduler pool, so that they share the cores fairly."""
    context.setLocalProperty("spark.scheduler.pool", name)


def register(spark: "SparkSession") -> None:
    """Register the source that PySpark does not find itself: it finds one per package."""
    from sawlog.pipeline.delta.table_source import TableSource

    spark.dataSource.register(TableSource)


def _is_not_py4j_s(record: logging.LogRecord) -> bool:
    """Filter py4j's tracebacks of unanswered calls out of the root logger."""
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def _log_settings(verbose: bool) -> "Iterator[str]":
    """A log4j configuration, which the JVM reads at its start, and quiet Python loggers."""
    from pyspark.logger import PySparkLogger

    text = _LOG_SETTINGS.format(level="warn" if verbose else "error")
    if not verbose:
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        # Repeats failures that we report, and calls cut off by a second Ctrl-C.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_py4j_s)
        for number, name in enumerate(_SILENCED):
            text += (
                f"logger.s{number}.name = org.apache.spark.{name}\nlogger.s{number}.level = off\n"
            )
    with tempfile.TemporaryDirectory(prefix="sawlog-spark-") as directory:
        file = Path(directory) / "log4j2.properties"
        file.write_text(text)
        yield f"-Dlog4j2.configurationFile=file:{file}"
