"""Fixtures of the fault tests."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import require, unavailable

SMALL_DISK_MB = 24


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mount point with a few megabytes."""
    require("mount")
    if os.geteuid() != 0:
        unavailable("only root can mount a small disk")
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        unavailable(f"no small disk can be mounted: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)
