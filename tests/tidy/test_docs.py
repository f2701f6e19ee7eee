"""The documentation names files that exist."""

import re

from support.sources import ROOT, name_of, tracked_files

FILE_NAME = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|txt|toml|svg))`")
OTHER_PROGRAMS = frozenset({"server.properties", "pipeline.yaml", "job.py"})


def test_every_file_that_the_documentation_names_exists() -> None:
    names = [f"/{name_of(path)}" for path in tracked_files()]
    missing = [
        f"{name_of(page)}: {match[1]}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for match in FILE_NAME.finditer(page.read_text())
        if match[1] not in OTHER_PROGRAMS
        and not any(name.endswith(f"/{match[1]}") for name in names)
    ]
    assert missing == []
