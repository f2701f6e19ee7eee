"""The message about a missing package of an extra: its name, and a command that works."""

import json
import subprocess
import sys
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from sawlog.client.extras import install_command, missing_package


def installed(directory: Path, url: str | None) -> Distribution:
    (directory / "METADATA").write_text("Name: sawlog\nVersion: 0.1.0\n")
    if url is not None:
        direct = {"url": url, "dir_info": {"editable": True}}
        (directory / "direct_url.json").write_text(json.dumps(direct))
    return PathDistribution(directory)


def test_an_installation_from_a_clone_names_the_clone(tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    command = install_command("arrow", installed(tmp_path, clone.as_uri()))
    assert command == f"pip install '{clone}[arrow]'"


@pytest.mark.parametrize(
    ("url", "command"),
    [
        (None, "pip install 'sawlog[spark]'"),
        ("file:///no/such/clone", "pip install '.[spark]' in a clone of Sawlog"),
        ("https://example.org/sawlog.git", "pip install '.[spark]' in a clone of Sawlog"),
    ],
)
def test_the_command_depends_on_the_installation(
    tmp_path: Path, url: str | None, command: str
) -> None:
    assert install_command("spark", installed(tmp_path, url)) == command


@pytest.mark.parametrize(("module", "name"), [("yaml.nodes", "pyyaml"), ("pyspark", "pyspark")])
def test_a_package_is_named_by_its_distribution(module: str, name: str) -> None:
    message = missing_package("the pipeline", "spark", ModuleNotFoundError("no", name=module))
    assert message.startswith(
        f"the pipeline needs the package '{name}', which is not installed: pip"
    )


def test_a_package_that_fails_to_import_is_not_called_missing() -> None:
    error = ImportError("libstdc++.so.6: cannot open shared object file", name="pyarrow.lib")
    message = missing_package("an Arrow batch", "arrow", error)
    assert "libstdc++.so.6" in message
    assert "not installed" not in message


@pytest.mark.parametrize(
    ("module", "program", "name"),
    [
        ("yaml", "from sawlog.cli.main import main; main(['pipeline', 'check', 'x'])", "pyyaml"),
        ("pyarrow", "import sawlog.client.arrow.record_columns", "pyarrow"),
    ],
)
def test_a_missing_package_comes_with_its_command(module: str, program: str, name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{module!r}] = None; {program}"],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert f"needs the package '{name}', which is not installed: pip install '" in ended.stderr


def test_the_consumer_on_zookeeper_names_the_extra_with_kazoo() -> None:
    program = "import sys; sys.modules['kazoo'] = None; from sawlog.client import ZooKeeperConsumer"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: ZooKeeperConsumer needs the package 'kazoo'" in done.stderr
    assert "[zookeeper]'" in done.stderr
