"""The script: its chapters by name. Each works on topics of its own and can run alone."""

import json
from collections.abc import Callable, Mapping

from transcripts.chapters import (
    acls,
    cluster,
    configs,
    deleting,
    fetching,
    groups_admin,
    groups_consumer,
    groups_consumer_odd,
    groups_cooperative,
    groups_coordinators,
    groups_eager,
    groups_limits,
    groups_migration,
    groups_offsets,
    groups_refusals,
    groups_static,
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
    "acls": acls.chapter,
    "producing": producing.chapter,
    "refusals": refusals.chapter,
    "sequences": sequences.chapter,
    "fetching": fetching.chapter,
    "sessions": sessions.chapter,
    "offsets": offsets.chapter,
    "groups_coordinators": groups_coordinators.chapter,
    "groups_eager": groups_eager.chapter,
    "groups_cooperative": groups_cooperative.chapter,
    "groups_static": groups_static.chapter,
    "groups_consumer": groups_consumer.chapter,
    "groups_consumer_odd": groups_consumer_odd.chapter,
    "groups_migration": groups_migration.chapter,
    "groups_offsets": groups_offsets.chapter,
    "groups_admin": groups_admin.chapter,
    "groups_refusals": groups_refusals.chapter,
    "groups_limits": groups_limits.chapter,
}
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "10",
    "group.consumer.assignment.interval.ms": "0",
}
"""How the broker is set up that the script talks to: groups need not wait."""

SETTINGS_OF = {"groups_limits": groups_limits.SETTINGS}
"""Chapters that need a broker set up in another way."""

ALONE = frozenset({"groups_coordinators"})
"""Chapters after which a broker answers others in another way: asking Kafka for the coordinator
of a transaction creates the topic of transactions."""


def settings_of(chapter: str) -> Mapping[str, str]:
    return SETTINGS_OF.get(chapter, SETTINGS)


def broker_of(chapter: str) -> str:
    """A name of the broker that the chapter runs on: chapters with the same name share it."""
    return chapter if chapter in ALONE else json.dumps(settings_of(chapter))


def perform(chapter: str, host: str, port: int) -> list[Step]:
    """Runs one chapter against a broker; its steps with the answers that came."""
    talk = Dialogue(host, port)
    try:
        CHAPTERS[chapter](talk)
    finally:
        talk.end()
    return talk.steps
