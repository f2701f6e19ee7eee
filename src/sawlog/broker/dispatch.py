"""From a frame to its handler: which APIs are served, in which versions, and what happens
to a frame that is none of them.

As Kafka does it: an unknown API or version closes the connection, except that ApiVersions in a
version from the future is answered in version 0 with the list (KIP-511).
"""

from typing import Any

from sawlog.broker.api import (
    cluster,
    configs,
    fetch,
    metadata,
    offsets,
    produce,
    producers,
    records,
    topics,
    versions,
)
from sawlog.broker.request import Api, Handler
from sawlog.protocol.apis import ApiKey, response_class

_HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.API_VERSIONS: versions.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: records.delete_records,
    ApiKey.INIT_PRODUCER_ID: producers.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
}


def served_apis() -> dict[int, Api]:
    """Every API that this broker serves, by its number."""
    return {int(key): Api(key, handler) for key, handler in _HANDLERS.items()}


def error_response(api: Api, code: int) -> Any | None:
    """The response that says `code` at its top level, where the API has such a place."""
    response: Any = response_class(api.key)()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = code
    return response
