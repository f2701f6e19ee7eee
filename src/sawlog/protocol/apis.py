"""Kafka's APIs: numbers, versions, header versions, and the classes of their messages.

The facts are those of Apache Kafka 4.3. A message's module is imported when its class is first
asked for, so that a broker pays at its start only for what it serves.
"""

from functools import cache
from importlib import import_module

from sawlog.protocol.messages.index import VERSIONS, ApiKey
from sawlog.protocol.schema import Message, parse_versions

__all__ = [
    "ApiKey",
    "advertised_versions",
    "first_flexible_version",
    "has_draft_version",
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
    """First and last version that can be read and written; LookupError for a removed API.

    A last version that is still a draft (InitProducerId 6) does not count, as in Kafka unless
    it is told otherwise.
    """
    versions = parse_versions(VERSIONS[api][0])
    if not versions:
        raise LookupError(f"{api.name} has no versions any more")
    return versions[0], versions[-1] - has_draft_version(api)


def advertised_versions(api: ApiKey) -> tuple[int, int]:
    """The range that ApiVersions tells: Produce from 0, for old librdkafka's sake (KAFKA-18659)."""
    first, last = valid_versions(api)
    return (0 if api is ApiKey.PRODUCE else first), last


def has_draft_version(api: ApiKey) -> bool:
    return VERSIONS[api][2]


@cache
def first_flexible_version(api: ApiKey) -> int:
    """From here on headers and bodies have tagged fields; beyond all versions where none has."""
    flexible = parse_versions(VERSIONS[api][1])
    return flexible[0] if flexible else 0x8000


def request_header_version(api: ApiKey, version: int) -> int:
    """1, or 2 with tagged fields. Header version 0 went with ControlledShutdown 0."""
    return 2 if version >= first_flexible_version(api) else 1


def response_header_version(api: ApiKey, version: int) -> int:
    """0, or 1 with tagged fields; always 0 for ApiVersions: any client must read it (KIP-511)."""
    return int(version >= first_flexible_version(api) and api is not ApiKey.API_VERSIONS)


def _message_class(api: ApiKey, suffix: str) -> type[Message]:
    valid_versions(api)
    module = import_module(f"sawlog.protocol.messages.{api.name.lower()}_{suffix.lower()}")
    found: type[Message] = getattr(module, api.name.title().replace("_", "") + suffix)
    return found
