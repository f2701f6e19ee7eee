"""Advice on how to install a missing package of an extra (`sawlog[arrow]`, `sawlog[spark]`)."""

import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from os.path import exists
from urllib.parse import urlsplit
from urllib.request import url2pathname

_DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Distributions whose name differs from that of their module."""


def missing_package(what: str, extra: str, error: ImportError) -> str:
    """Return which distribution `what` needs, and the command that installs it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f"{what} needs a package that cannot be imported: {error}"
    module = error.name.partition(".")[0]
    name = _DISTRIBUTIONS.get(module, module)
    return f"{what} needs the package {name!r}, which is not installed: {_command(extra)}"


def _command(extra: str) -> str:
    try:
        return install_command(extra, distribution("sawlog"))
    except PackageNotFoundError:  # only the sources are on the path
        return _in_a_clone(extra)


def install_command(extra: str, installed: Distribution) -> str:
    """Return the pip command that adds an extra to this installation of Sawlog.

    direct_url.json (PEP 610) has the directory or file that it was installed from; without one it
    came from an index.
    """
    direct = installed.read_text("direct_url.json")
    if direct is None:
        return f"pip install 'sawlog[{extra}]'"
    url = urlsplit(json.loads(direct)["url"])
    source = url2pathname(url.path)
    if url.scheme == "file" and exists(source):
        return f"pip install '{source}[{extra}]'"
    return _in_a_clone(extra)


def _in_a_clone(extra: str) -> str:
    return f"pip install '.[{extra}]' in a clone of Sawlog"
