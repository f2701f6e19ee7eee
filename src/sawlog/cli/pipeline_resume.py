"""`sawlog pipeline resume`: let a table continue that stopped because records were lost."""

import click

from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import TEXT
from sawlog.cli.output import note, print_line
from sawlog.cli.pipeline_context import landed_table, load, table_file_option
from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster


@click.command()
@click.argument("table", type=TEXT)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Continue without the lost records; default: list them and change nothing.",
)
@table_file_option
def resume(table: str, accept_loss: bool, file: str) -> None:
    """Let TABLE continue after records were lost before they landed.

    Its offsets move to where the topic is now, in one version, and the table records what was
    skipped: `status` and the table's history show it. The next run continues from there. A table
    that has lost nothing is refused.
    """
    wanted = load(file)
    config = landed_table(wanted, table)
    from sawlog.pipeline.delta.errors import TableError
    from sawlog.pipeline.landing.driver.resume import resume as resume_table
    from sawlog.pipeline.landing.failures import LandingFailure, classify

    try:
        with pipeline_cluster(wanted.brokers) as cluster:
            skipped = resume_table(cluster, config, accept_loss=accept_loss)
    except (LandingFailure, TableError, OSError) as error:
        raise click.ClickException(classify(error).message) from None
    for entry in skipped:
        print_line(f"{config.name}: {'skipped' if accept_loss else 'lost'} {entry.describe()}")
    if accept_loss:
        note(f"{config.name}: the next run continues with its topic")
    else:
        note(f"{config.name}: nothing was changed; --accept-loss continues without these records")
        click.get_current_context().exit(FAILED)
