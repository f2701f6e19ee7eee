"""`sawlog pipeline`: land topics in tables as a pipeline file says."""

import click

from sawlog.cli.pipeline_context import (
    file_argument,
    land_tables,
    load,
    master_option,
    require_lake,
    verbose_option,
)
from sawlog.cli.pipeline_dead import dead
from sawlog.cli.pipeline_resume import resume
from sawlog.cli.pipeline_tables import check, compact, replay, status


@click.group()
def pipeline() -> None:
    """Land topics in Delta tables, exactly once, and maintain the tables."""


for _command in (check, compact, dead, replay, resume, status):
    pipeline.add_command(_command)


@pipeline.command()
@file_argument
@click.option("--once", is_flag=True, help="Land the records available now, then stop.")
@master_option
@verbose_option
def run(file: str, once: bool, master: str | None, verbose: bool) -> None:
    """Land the topics of FILE in their tables until stopped.

    Ctrl-C or SIGTERM stops after the commit in progress; batches that are not committed land in the
    next run, which continues from the offsets in the tables. Exit code 1 if a table failed for
    good, 3 if the only reason is that no broker answers.
    """
    wanted = load(file)
    require_lake(wanted)
    was_stopped = land_tables(wanted, master, once=once, verbose=verbose)
    if once and was_stopped:
        raise click.Abort
