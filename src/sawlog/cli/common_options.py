"""Options that several commands share: which cluster, how long to try, JSON."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sawlog.cli.option_types import SECONDS, TEXT
from sawlog.client.net.addresses import Address, parse_addresses
from sawlog.client.net.cluster import Cluster

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class BrokerAddresses(click.ParamType[list[Address]]):
    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Address]:
        try:
            return parse_addresses(TEXT.convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def with_cluster(command: Command) -> Command:
    """Gives a command the argument `cluster`, from `--bootstrap` and `--timeout`."""

    @click.option(
        "-b",
        "--bootstrap",
        type=BrokerAddresses(),
        default=DEFAULT_BOOTSTRAP,
        envvar="SAWLOG_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,...]",
        help="Any brokers of the cluster.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=SECONDS,
        default=30,
        show_default=True,
        metavar="SECONDS",
        help="How long to try before giving up.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, bootstrap: list[Address], timeout_s: float, **kwargs: Any) -> Any:
        timeout_ms = timeout_s * 1_000
        with Cluster(
            [str(address) for address in bootstrap],
            client_id="sawlog-cli",
            timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        ) as cluster:
            return command(*args, cluster=cluster, **kwargs)

    return wrapped  # type: ignore[return-value]


json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for machines.")
