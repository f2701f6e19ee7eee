"""What to install where a package of an extra (`sawlog[arrow]`, `sawlog[spark]`) is missing."""

import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from os.path import exists
from urllib.parse import urlsplit
from urllib.request import url2pathname

_DISTRIBUTIONS = {"yaml": "pyyaml"}
"""By the name that is imported; the others are called the same."""


def missing_package(what: str, extra: str, error: ImportError) -> str:
    """Say which distribution `what` needs, and the command that installs it with its extra."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f"{what} needs a package that cannot be imported: {error}"
    module = error.name.partition(".")[0]
    name = _DISTRIBUTIONS.get(module, module)
    return f"{what} needs the package {name!r}, which is not installed: {_command(extra)}"


def _command(extra: str) -> str:
    try:
        return install_command(extra, distribution("sawlog"))
    except PackageNotFoundError:  # the sources alone are in the path
        return _in_a_clone(extra)


def install_command(extra: str, installed: Distribution) -> str:
    """The pip command for an extra of Sawlog as it is installed: from a directory or a file, which
    direct_url.json names (PEP 610), or from an index.
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
