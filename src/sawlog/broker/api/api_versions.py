"""ApiVersions, versions 0 to 5 (KIP-35, 511, 584, 1242): the APIs that this broker serves.

The response header is always version 0, because the client may not know more yet. The broker
answers a request in an unknown version in version 0, with the versions of ApiVersions (KIP-511).
From version 5 on a client may name the cluster and the node that it expects, both or neither. A
client that reached another broker is told to bootstrap again (KIP-1242).
"""

import re
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.dispatch import LOADERS
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey, advertised_versions
from sawlog.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.core.ids import NodeId
    from sawlog.protocol.messages.api_versions_request import ApiVersionsRequest

    class ApiVersionsContext(Protocol):
        node_id: NodeId
        metadata: MetadataCache


FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_OPTIONAL_FEATURES = 4
"""Older clients reject a supported feature that begins at level 0 (KAFKA-17011)."""

NO_EXPECTED_NODE = -1

FEATURES = {"group.version": 1, "transaction.version": 2}
"""The supported features with their level; all begin at level 0. Clients act on them: with
`transaction.version` 2 producers do not add partitions to transactions (KIP-890)."""

FEATURES_EPOCH = 2
"""To be raised with every change of `FEATURES`: clients keep the features of the highest epoch."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(
    context: "ApiVersionsContext", request: "Request", message: "ApiVersionsRequest"
) -> ApiVersionsResponse:
    if request.api_version >= FIRST_VERSION_WITH_SOFTWARE:
        name, version = message.client_software_name, message.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    # Before version 5 both fields have their defaults.
    if (message.cluster_id is None) != (message.node_id == NO_EXPECTED_NODE):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    if message.cluster_id is not None and not _is_expected(context, message):
        return ApiVersionsResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))
    supported = request.api_version >= FIRST_VERSION_WITH_OPTIONAL_FEATURES
    return ApiVersionsResponse(
        api_keys=[_entry(key) for key in LOADERS],
        supported_features=[
            SupportedFeatureKey(name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
            if supported
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the response to a version of ApiVersions that is not served: the served versions."""
    return ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[_entry(ApiKey.API_VERSIONS)]
    )


def _is_expected(context: "ApiVersionsContext", message: "ApiVersionsRequest") -> bool:
    """Whether this broker is the one that the client names."""
    is_cluster = message.cluster_id == context.metadata.image.cluster_id
    return is_cluster and message.node_id == context.node_id


def _entry(key: ApiKey) -> ApiVersion:
    first, last = advertised_versions(key)
    return ApiVersion(int(key), first, last)
