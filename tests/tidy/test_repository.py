"""Tracked files contain no paths, hosts or registries of one machine."""

import re

from support.sources import name_of, tracked_files

MACHINE_PATHS = ("home", "root", "Users", "work", "tmp/w")
# Split, so that this file does not match its own patterns.
FORBIDDEN = [
    re.compile(rf"(?<![\w.$-])/(?:{'|'.join(MACHINE_PATHS)})/[\w.-]"),
    re.compile(r"(?:index|extra-index|registry|repository)[-_]url\s*[=:]", re.IGNORECASE),
    re.compile("|".join((r"pypi\.or" + "g", r"pythonhoste" + "d", r"repo\d?\.mave" + "n"))),
    re.compile("|".join(("jfro" + "g", "artifactor" + "y", r"nexu" + "s"))),
]


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{name_of(path)}: {match.group()}"
        for path in tracked_files()
        for pattern in FORBIDDEN
        for match in pattern.finditer(path.read_bytes().decode("utf-8", "replace"))
    ]
    assert found == []
