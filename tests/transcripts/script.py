"""The script: its chapters by name. Each works on topics of its own and can run alone."""

from collections.abc import Callable

from transcripts.chapters import (
    cluster,
    configs,
    deleting,
    fetching,
    metadata,
    offsets,
    producing,
    refusals,
    sequences,
    sessions,
    topics,
    versions,
)
from transcripts.dialogue import Dialogue, Step

CHAPTERS: dict[str, Callable[[Dialogue], None]] = {
    "versions": versions.chapter,
    "metadata": metadata.chapter,
    "cluster": cluster.chapter,
    "topics": topics.chapter,
    "deleting": deleting.chapter,
    "configs": configs.chapter,
    "producing": producing.chapter,
    "refusals": refusals.chapter,
    "sequences": sequences.chapter,
    "fetching": fetching.chapter,
    "sessions": sessions.chapter,
    "offsets": offsets.chapter,
}


def perform(chapter: str, host: str, port: int) -> list[Step]:
    """Runs one chapter against a broker; its steps with the answers that came."""
    talk = Dialogue(host, port)
    try:
        CHAPTERS[chapter](talk)
    finally:
        talk.hang_up()
    return talk.steps
