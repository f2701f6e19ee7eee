"""The partition of a coordinator's topic that a group id or transactional id belongs to."""

from functools import lru_cache

from sawlog.core.java_hash import string_hash

MAX_CACHED_IDS = 10_000
"""Hashes of this many ids are cached, because every request needs one."""

MAX_CACHED_ID_LENGTH = 300
"""Longer ids are not cached: a client may send ids of 32 KB."""


def partition_for(name: str, partitions: int) -> int:
    """Compute the partition as Kafka does: Utils.abs of the id's Java hash, modulo `partitions`."""
    if len(name) <= MAX_CACHED_ID_LENGTH:
        return _cached_partition_for(name, partitions)
    return _partition_for(name, partitions)


def _partition_for(name: str, partitions: int) -> int:
    value = string_hash(name)
    if value >= 0x80000000:
        value = 0x100000000 - value
    return (value & 0x7FFFFFFF) % partitions


_cached_partition_for = lru_cache(MAX_CACHED_IDS)(_partition_for)
