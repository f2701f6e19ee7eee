"""The project's source files, for tests of the code itself."""

import ast
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "sawlog"
GENERATED = SOURCE / "protocol" / "messages"


def modules_of(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.py"))


def written_modules() -> list[Path]:
    """Return the modules of the package except the generated messages."""
    return [path for path in modules_of(SOURCE) if GENERATED not in path.parents]


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def name_of(path: Path) -> str:
    """Return a path relative to the root of the repository."""
    return str(path.relative_to(ROOT))


def tracked_files() -> list[Path]:
    """Return all files that git tracks and that exist."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    files = (ROOT / name for name in listing.split("\0") if name)
    return [path for path in files if path.is_file()]
