"""Which partition of a coordinator's topic keeps what belongs to an id."""

from functools import lru_cache

from sawlog.core.java_hash import string_hash

MAX_KNOWN_IDS = 10_000
"""So many ids are hashed once, and not for each of their requests."""

LONGEST_KNOWN_ID = 300
"""Anybody can ask for ids that are not there, of 32 KB."""


def partition_for(name: str, partitions: int) -> int:
    """As Kafka has it: Java's hash of the id, its sign taken off, modulo the partitions."""
    if len(name) <= LONGEST_KNOWN_ID:
        return _known_partition_for(name, partitions)
    return _partition_for(name, partitions)


def _partition_for(name: str, partitions: int) -> int:
    value = string_hash(name)
    if value >= 0x80000000:
        value = 0x100000000 - value
    return (value & 0x7FFFFFFF) % partitions


_known_partition_for = lru_cache(MAX_KNOWN_IDS)(_partition_for)
