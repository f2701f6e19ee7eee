"""`sawlog pipeline`: topics to tables, by a file that says what lands where."""

import click

from sawlog.cli.pipeline_calls import (
    exit_by,
    file_argument,
    load,
    master_option,
    require_lake,
    require_spark,
    started,
    stopping,
    verbose_option,
)
from sawlog.cli.pipeline_tables import check, compact, replay, status


@click.group()
def pipeline() -> None:
    """Land topics in Delta tables, exactly once, and look after the tables."""


for _command in (check, compact, replay, status):
    pipeline.add_command(_command)


@pipeline.command()
@file_argument
@click.option("--once", is_flag=True, help="Land what there is now, then stop.")
@master_option
@verbose_option
def run(file: str, once: bool, master: str | None, verbose: bool) -> None:
    """Land the topics of FILE in their tables, until stopped.

    Ctrl-C or SIGTERM ends it well: a batch that is being committed is, all others are left for the
    next run, which goes on where the tables are. Exit code 1 where a table had to be given up, 3
    where that was for want of a broker.
    """
    wanted = load(file)
    require_lake(wanted)
    require_spark()
    from sawlog.cli.pipeline_progress import watching
    from sawlog.pipeline.landing.whole import run_pipeline

    # Spark listens for Ctrl-C itself: the session comes first.
    with (
        started(wanted, master, verbose=verbose) as spark,
        stopping() as stop,
        watching(wanted) as events,
    ):
        outcomes = run_pipeline(spark, wanted, events, stop, once=once)
    exit_by(outcomes)
    if once and stop.is_set():
        raise click.Abort
