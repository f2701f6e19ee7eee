"""Shared code of the `sawlog pipeline` commands: the file, Spark, signals, exit codes."""

import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import click

from sawlog.cli.exit_codes import FAILED, NO_BROKER, USAGE
from sawlog.cli.option_types import TEXT
from sawlog.cli.output import note
from sawlog.client.extras import missing_package

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
    from sawlog.pipeline.landing.driver.events import Events
    from sawlog.pipeline.landing.driver.query_supervisor import Outcome

_STDERR = 2

file_argument = click.argument("file", type=TEXT)
master_option = click.option(
    "--master",
    type=TEXT,
    metavar="URL",
    help="The Spark master; default: all cores of this machine.",
)

verbose_option = click.option(
    "--verbose", is_flag=True, help="Also show the output of Spark and its workers."
)

table_file_option = click.option(
    "-f",
    "--file",
    type=TEXT,
    default="pipeline.yaml",
    show_default=True,
    help="The pipeline file of the table.",
)


class SparkExited(click.ClickException):
    """Spark's JVM exited during the command."""


class InvalidPipelineFile(click.ClickException):
    """The pipeline file has errors; nothing was done."""

    exit_code = USAGE


def load(file: str) -> "PipelineConfig":
    """Read and check the file; a file with errors is a usage error with one line per problem."""
    try:
        from sawlog.pipeline.without_pandas import keep_pandas_from_pyarrow

        keep_pandas_from_pyarrow()
        from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
        from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile
    except ImportError as error:
        raise missing(error) from None
    try:
        return read_pipeline(file)
    except OSError as error:
        raise InvalidPipelineFile(f"{file}: {error.strerror or error}") from None
    except BadPipelineFile as error:
        problems = str(error).splitlines()
        if len(problems) > 1:
            problems.insert(0, f"{len(problems)} problems in the file")
        raise InvalidPipelineFile("\n".join(problems)) from None


def landed_table(wanted: "PipelineConfig", name: str) -> "LandedTable":
    """The table of a topic with this name. Raises UsageError."""
    from sawlog.core.config_warnings import near_names

    found = next((table for table in wanted.landed if table.name == name), None)
    if found is None:
        names = [table.name for table in wanted.landed]
        near = near_names(name, names) or f"; there are {', '.join(names)}"
        raise click.UsageError(f"{wanted.file} has no table {name!r} of a topic{near}")
    return found


def missing(error: ImportError) -> click.ClickException:
    return click.ClickException(missing_package("the pipeline", "spark", error))


def require_lake(pipeline: "PipelineConfig") -> None:
    """Fail before Spark starts if the lake cannot be written to."""
    from sawlog.pipeline.landing.driver.preflight import unwritable

    problem = unwritable(pipeline.lake)
    if problem is not None:
        raise click.ClickException(problem)


def require_spark() -> None:
    """Fail before anything else starts if PySpark is missing or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise missing(error) from None
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < (4, 2):
        raise click.ClickException(
            f"the pipeline needs PySpark 4.2 or later; {pyspark.__version__} is installed"
        )
    from sawlog.pipeline.without_pandas import keep_pandas_from_pyspark

    keep_pandas_from_pyspark()


@contextmanager
def spark_started(
    pipeline: "PipelineConfig", master: str | None, *, verbose: bool
) -> "Iterator[SparkContext]":
    """A SparkContext for the block. Starting takes some seconds, so notes say so."""
    from sawlog.pipeline.landing.driver.spark_session import (
        SparkDidNotStart,
        SparkJvmExited,
        spark_context,
    )

    note("starting Spark ...")
    terminal = os.dup(_STDERR)  # stderr is captured while Spark starts

    def still_starting(seconds: float) -> None:
        os.write(terminal, b"starting Spark ... %d s\n" % seconds)

    try:
        with ExitStack() as cleanup:
            with deferred_signals():
                context = cleanup.enter_context(
                    spark_context(pipeline, master, verbose=verbose, still_starting=still_starting)
                )
            yield context
    except SparkDidNotStart as error:
        raise _spark_did_not_start(error) from None
    except SparkJvmExited as error:
        raise SparkExited(str(error)) from None
    finally:
        os.close(terminal)


@contextmanager
def session_started(
    pipeline: "PipelineConfig", master: str | None, *, verbose: bool
) -> "Iterator[SparkSession]":
    """A Spark session for the block."""
    from sawlog.pipeline.landing.driver.spark_session import query_session

    with spark_started(pipeline, master, verbose=verbose) as context:
        yield query_session(context)


def _spark_did_not_start(error: Exception) -> click.ClickException:
    return click.ClickException(
        "Spark did not start. It needs Java 17 (JAVA_HOME, or java in the PATH), and a master"
        f" and settings that it knows; it said:\n{error}"
    )


@contextmanager
def sql_check(pipeline: "PipelineConfig") -> "Iterator[Callable[[str], str | None]]":
    """Yield a function that returns why SQL is not a query; Spark's JVM starts if it is needed.

    Without a JVM every query has the same problem, and the other tables are checked nevertheless.
    """
    if not pipeline.queries:
        yield lambda _: None
        return
    require_spark()
    from sawlog.pipeline.landing.driver.spark_session import SparkDidNotStart
    from sawlog.pipeline.landing.driver.sql_parser import standalone_parser

    note("starting Spark's parser ...")
    problem: str | None = None
    with ExitStack() as cleanup:
        try:
            with deferred_signals():
                parser = cleanup.enter_context(standalone_parser())
        except SparkDidNotStart as error:
            problem = f"its SQL cannot be checked: {_spark_did_not_start(error).message}"
        yield parser.error if problem is None else lambda _: problem


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of the block.

    A JVM whose start is interrupted would be orphaned. A second Ctrl-C takes effect at once. If the
    block fails after a signal, the JVM received the same signal and exited first: that counts as
    the stop, not as a failure.
    """
    came: list[int] = []
    is_built = False
    terminal = os.dup(_STDERR)  # stderr is captured while Spark starts

    def comes(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not came:
            os.write(terminal, b"sawlog: stopping, as soon as Spark has started\n")
        came.append(number)

    before = {sign: signal.signal(sign, comes) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
        is_built = True
    except Exception:
        if not came:
            raise
    finally:
        for sign, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(sign, handler)
        os.close(terminal)
    if came:
        signal.raise_signal(came[0])
        if not is_built:
            raise click.Abort


def land_tables(wanted: "PipelineConfig", master: str | None, *, once: bool, verbose: bool) -> bool:
    """Land the tables; exits with the code of the outcomes, returns whether a signal stopped it."""
    require_spark()
    from py4j.protocol import Py4JError

    from sawlog.cli.pipeline_progress import progress_output
    from sawlog.pipeline.formats.compile_ahead import compiled_meanwhile
    from sawlog.pipeline.landing.driver.pipeline_runner import run_pipeline
    from sawlog.pipeline.landing.driver.spark_session import formats_to_compile

    stop = threading.Event()
    outcomes: list[Outcome] = []
    formats = formats_to_compile(wanted, master)
    if formats:
        note("starting Spark ... and compiling parsers, once for this machine")
    try:
        with (
            compiled_meanwhile(formats) as wait_for_parsers,
            spark_started(wanted, master, verbose=verbose) as context,
            progress_output(wanted) as events,
            stop_on_signal(stop, events),
        ):
            wait_for_parsers(stop)
            outcomes = run_pipeline(context, wanted, events, stop, once=once)
    except (SparkExited, Py4JError):
        if not stop.is_set():  # else the JVM received the same signal and exited first
            raise
    exit_with_outcome(outcomes)
    return stop.is_set()


@contextmanager
def stop_on_signal(stop: threading.Event, events: "Events") -> Iterator[None]:
    """Set `stop` on Ctrl-C and SIGTERM. A second Ctrl-C interrupts at once.

    A handler runs in the middle of the main thread, which may hold the lock of `stop` just then,
    so it takes no lock: another thread reports the signal and sets `stop`.
    """
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}
    wakeups: queue.SimpleQueue[bool] = queue.SimpleQueue()  # `put` may interrupt a `put`
    came: list[int] = []

    def stopped(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(number)
        wakeups.put(True)

    def wait_for_signal() -> None:
        if wakeups.get():
            stop.set()
            events.report("sawlog", "stopping after the commit in progress")

    waiting = threading.Thread(target=wait_for_signal, name="sawlog-signals", daemon=True)
    waiting.start()
    for sign in before:
        signal.signal(sign, stopped)
    try:
        yield
    finally:
        for sign, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(sign, handler)
        wakeups.put(False)
        waiting.join()


def exit_with_outcome(outcomes: "list[Outcome]") -> None:
    """Exit with the code for the outcomes."""
    from sawlog.pipeline.landing.failures import FailureKind

    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    if failures:
        unreachable = all(failure.kind is FailureKind.UNREACHABLE for failure in failures)
        click.get_current_context().exit(NO_BROKER if unreachable else FAILED)


class TableErrors:
    """Report the error of a table in one line and continue with the other tables."""

    def __init__(self, *more: type[Exception]) -> None:
        self._more = more
        self._were_any = False

    @contextmanager
    def of(self, table: str) -> Iterator[None]:
        from sawlog.pipeline.delta.errors import TableError
        from sawlog.pipeline.landing.failures import classify

        kinds: tuple[type[Exception], ...] = (TableError, OSError, *self._more)
        try:
            yield
        except kinds as error:
            note(f"{table}: {classify(error).message}")
            self._were_any = True

    def exit_if_any(self) -> None:
        if self._were_any:
            click.get_current_context().exit(FAILED)
