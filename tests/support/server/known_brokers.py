"""Waits until the brokers of a new cluster know each other."""

from sawlog.client import Admin
from support.process import ServerProcess, wait_until


def wait_until_brokers_know_each_other(bootstrap: str, *processes: ServerProcess) -> None:
    """Wait until each broker of `bootstrap` has heard of all: the last one registers after the
    first is ready."""
    addresses = bootstrap.split(",")

    def knows_all(address: str) -> bool:
        with Admin(address) as admin:
            return len(admin.describe_cluster().nodes) == len(addresses)

    wait_until(lambda: all(map(knows_all, addresses)), *processes)
