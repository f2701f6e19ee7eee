"""`sawlog pipeline`: topics to tables, by a file that says what lands where."""

import click

from sawlog.cli.pipeline_context import (
    file_argument,
    land,
    load,
    master_option,
    require_lake,
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
    was_stopped = land(wanted, master, once=once, verbose=verbose)
    if once and was_stopped:
        raise click.Abort
