"""Checks that executors have the Python and packages of the driver.

Executors have their own Python. The first task of an executor that lacks a package, or has another
version of Python or of this package, fails with a message before it reads or writes anything. Other
packages may differ in version: only Arrow data is exchanged.
"""

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGES = ("sawlog", "pyarrow", "numpy", "numba", "cramjam", "crc32c")
PYTHON = "python"
MISSING = "missing"
_SAME = (PYTHON, "sawlog")

Versions = dict[str, str]

_checked: set[tuple[tuple[str, str], ...]] = set()


class ExecutorDiffers(RuntimeError):
    """An executor cannot run the driver's tasks."""


def versions_here(packages: Iterable[str] = PACKAGES) -> Versions:
    """The versions of Python (such as 3.11) and of the packages in this process."""
    found = {PYTHON: f"{sys.version_info.major}.{sys.version_info.minor}"}
    return found | {package: _version(package) for package in packages}


@cache  # each lookup takes a millisecond, and every table and task needs all of them
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return MISSING


def check_here(wanted: Mapping[str, str]) -> None:
    """Raise ExecutorDiffers if this process differs from the driver; cached per process."""
    key = tuple(sorted(wanted.items()))
    if key in _checked:
        return
    packages = [name for name in wanted if name != PYTHON]
    _raise_where_different({platform.node(): versions_here(packages)}, wanted)
    _checked.add(key)


def check_executors(context: "SparkContext", packages: Iterable[str] = PACKAGES) -> None:
    """Run one small task per core and compare. ExecutorDiffers names host and package.

    It works even if an executor lacks this package: the task is pickled by value.
    """
    cores = max(1, context.defaultParallelism)
    wanted = versions_here(packages)
    probe = _probe([name for name in wanted if name != PYTHON])
    found = context.parallelize(range(cores), cores).mapPartitions(probe).collect()
    _raise_where_different(dict(found), wanted)


def _probe(packages: list[str]) -> Callable[[object], Iterable[tuple[str, Versions]]]:
    """A function that is pickled by value, so it must not use anything of this package."""

    def look(_: object) -> Iterable[tuple[str, Versions]]:
        import platform
        import sys
        from importlib import metadata

        found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
        for package in packages:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = "missing"
        return [(platform.node(), found)]

    return look


def _raise_where_different(found: Mapping[str, Versions], wanted: Mapping[str, str]) -> None:
    differences = [
        f"{host}: {name} is {versions.get(name, MISSING)}, the driver has {version}"
        for host, versions in sorted(found.items())
        for name, version in wanted.items()
        if _differs(name, versions.get(name, MISSING), version)
    ]
    if differences:
        raise ExecutorDiffers(
            "executors must have the driver's Python and packages. "
            + "; ".join(differences)
            + ". Ship the driver's environment with the job (spark.archives), or install the same"
            " versions there"
        )


def _differs(name: str, found: str, wanted: str) -> bool:
    return found != wanted and (name in _SAME or found == MISSING)
