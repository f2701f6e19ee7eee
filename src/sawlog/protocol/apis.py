"""Kafka's APIs: keys, versions, header versions, and message classes, as of Apache Kafka 4.4.

The module of a message is imported when its class is first used, so that a start does not import
all of them.
"""

from functools import cache
from importlib import import_module

from sawlog.protocol.messages.index import VERSIONS, ApiKey
from sawlog.protocol.schema import Message, parse_versions

__all__ = [
    "ApiKey",
    "advertised_versions",
    "first_flexible_version",
    "has_unstable_version",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
    "valid_versions",
]


@cache
def request_class(api: ApiKey) -> type[Message]:
    return _message_class(api, "Request")


@cache
def response_class(api: ApiKey) -> type[Message]:
    return _message_class(api, "Response")


@cache
def valid_versions(api: ApiKey) -> tuple[int, int]:
    """Return the first and last supported version; LookupError for a removed API.

    An unstable last version (InitProducerId 6) is excluded, as in Kafka by default.
    """
    versions = parse_versions(VERSIONS[api][0])
    if not versions:
        raise LookupError(f"{api.name} was removed: it has no versions")
    return versions[0], versions[-1] - has_unstable_version(api)


def advertised_versions(api: ApiKey) -> tuple[int, int]:
    """Return the range for ApiVersions: Produce from 0, for old librdkafka (KAFKA-18659)."""
    first, last = valid_versions(api)
    return (0 if api is ApiKey.PRODUCE else first), last


def has_unstable_version(api: ApiKey) -> bool:
    return VERSIONS[api][2]


@cache
def first_flexible_version(api: ApiKey) -> int:
    """Return the first version with tagged fields; a number beyond all versions if none has."""
    flexible = parse_versions(VERSIONS[api][1])
    return flexible[0] if flexible else 0x8000


def request_header_version(api: ApiKey, version: int) -> int:
    """Return 1, or 2 with tagged fields. Version 0 was removed with ControlledShutdown 0."""
    return 2 if version >= first_flexible_version(api) else 1


def response_header_version(api: ApiKey, version: int) -> int:
    """Return 0, or 1 with tagged fields; always 0 for ApiVersions, for any client (KIP-511)."""
    return int(version >= first_flexible_version(api) and api is not ApiKey.API_VERSIONS)


def _message_class(api: ApiKey, suffix: str) -> type[Message]:
    valid_versions(api)
    module = import_module(f"sawlog.protocol.messages.{api.name.lower()}_{suffix.lower()}")
    found: type[Message] = getattr(module, api.name.title().replace("_", "") + suffix)
    return found
