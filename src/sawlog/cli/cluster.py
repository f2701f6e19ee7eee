"""`sawlog cluster`: the state of a cluster, its leaders, and where its replicas are."""

import click

from sawlog.cli.cluster_elect import elect
from sawlog.cli.cluster_reassign import drain, reassign
from sawlog.cli.cluster_status import status


@click.group()
def cluster() -> None:
    """Show the state of a cluster, elect leaders, move replicas."""


for _command in (status, reassign, elect, drain):
    cluster.add_command(_command)
