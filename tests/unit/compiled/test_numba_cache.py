"""The cache of compiled kernels: private, shared by processes, and optional."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sawlog.compiled.numba_cache import cache_directory

READ_ONE = """
from sawlog.client.arrow import record_kernels
from sawlog.client.consumer.fetched_records import FetchedRecords
from sawlog.client.arrow.record_columns import RecordColumns
from sawlog.core.ids import TopicPartition
from sawlog.protocol.records import Record, build_batch

taken = RecordColumns(("value",))
data = build_batch([Record(0, 0, None, b"one")])
assert taken.take(FetchedRecords(TopicPartition("t", 0), 0, data, max_decompressed_bytes=9))
print(taken.finish().to_pylist(), len(record_kernels.append.stats.cache_hits))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory that a cache can be in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def test_the_cache_is_a_private_directory_in_the_home(home: Path) -> None:
    found = cache_directory()
    assert found is not None
    assert found.parent == home / "home" / "sawlog"
    assert {place.stat().st_mode & 0o777 for place in (found, found.parent)} == {0o700}
    assert cache_directory() == found


def test_without_a_home_the_cache_is_in_the_temporary_directory(home: Path) -> None:
    (home / "home").write_text("not a directory")
    found = cache_directory()
    assert found is not None
    assert found.parent == home / "temporary" / f"sawlog-{os.getuid()}"


def test_a_directory_that_others_can_write_is_not_used(home: Path) -> None:
    (home / "home").write_text("not a directory")
    planted = home / "temporary" / f"sawlog-{os.getuid()}"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    assert cache_directory() is None


def test_a_symbolic_link_is_not_followed(home: Path) -> None:
    (home / "home").write_text("not a directory")
    (home / "temporary").mkdir()
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "temporary" / f"sawlog-{os.getuid()}").symlink_to(home / "elsewhere")
    assert cache_directory() is None


def start(**environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", READ_ONE],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def end(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return output.strip()


def test_concurrent_compilations_do_not_interfere(tmp_path: Path) -> None:
    both = [start(XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    assert all(end(process).startswith("[{'value': b'one'}]") for process in both)
    assert end(start(XDG_CACHE_HOME=str(tmp_path))) == "[{'value': b'one'}] 1"


@pytest.mark.long
def test_without_a_cache_each_process_compiles_for_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / f"sawlog-{os.getuid()}").write_text("not a directory")
    nowhere = start(XDG_CACHE_HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert end(nowhere) == "[{'value': b'one'}] 0"
    lost = start(NUMBA_CACHE_DIR=str(tmp_path / "file" / "below"))
    assert end(lost) == "[{'value': b'one'}] 0"


@pytest.mark.long
@pytest.mark.parametrize(
    "places",
    [
        ("property/test_arrow.py", "unit/client/arrow/test_record_columns.py"),
        ("property/pipeline/test_json_against_python.py", "unit/pipeline/formats/test_csv.py"),
    ],
    ids=["batches", "formats"],
)
def test_the_kernel_never_writes_outside_its_columns(
    tmp_path: Path, places: tuple[str, ...]
) -> None:
    """Run the tests of the columns with numba's bounds checks."""
    tests = Path(__file__).parents[2]
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += [str(tests / place) for place in places]
    told = subprocess.run(
        command, env={**os.environ, **checked}, capture_output=True, text=True, timeout=500
    )
    assert told.returncode == 0, told.stdout[-5_000:]
