"""From a frame to its handler: which APIs are served, in which versions, and what happens
to a frame that is none of them.

As Kafka does it: an unknown API or version closes the connection, except that ApiVersions in a
version from the future is answered in version 0 with the list (KIP-511).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sawlog.broker.request import Api, Handler
from sawlog.protocol.apis import ApiKey, response_class

_HANDLERS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce.produce",
    ApiKey.FETCH: "fetch.fetch",
    ApiKey.LIST_OFFSETS: "offsets.list_offsets",
    ApiKey.METADATA: "metadata.metadata",
    ApiKey.OFFSET_COMMIT: "group_offsets.offset_commit",
    ApiKey.OFFSET_FETCH: "group_offsets.offset_fetch",
    ApiKey.FIND_COORDINATOR: "coordinators.find_coordinator",
    ApiKey.JOIN_GROUP: "group_membership.join_group",
    ApiKey.HEARTBEAT: "group_membership.heartbeat",
    ApiKey.LEAVE_GROUP: "group_membership.leave_group",
    ApiKey.SYNC_GROUP: "group_membership.sync_group",
    ApiKey.DESCRIBE_GROUPS: "group_admin.describe_groups",
    ApiKey.LIST_GROUPS: "group_admin.list_groups",
    ApiKey.API_VERSIONS: "versions.api_versions",
    ApiKey.CREATE_TOPICS: "topics.create_topics",
    ApiKey.DELETE_TOPICS: "topics.delete_topics",
    ApiKey.DELETE_RECORDS: "records.delete_records",
    ApiKey.INIT_PRODUCER_ID: "producers.init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offsets.offset_for_leader_epoch",
    ApiKey.DESCRIBE_CONFIGS: "configs.describe_configs",
    ApiKey.ALTER_CONFIGS: "configs.alter_configs",
    ApiKey.CREATE_PARTITIONS: "topics.create_partitions",
    ApiKey.DELETE_GROUPS: "group_admin.delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs.incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "group_offsets.offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "cluster.describe_cluster",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_groups.consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_groups.consumer_group_describe",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "metadata.describe_topic_partitions",
}
"""Module in `broker.api` and function of each. A module is imported with the first request for
it: a broker without groups carries none of their code."""


def served_apis() -> dict[int, Api]:
    """Every API that this broker serves, by its number."""
    return {int(key): Api(key, _when_asked(handler)) for key, handler in _HANDLERS.items()}


def _when_asked(name: str) -> Callable[[], Handler]:
    module, function = name.split(".")

    def load() -> Handler:
        handler: Handler = getattr(import_module(f"sawlog.broker.api.{module}"), function)
        return handler

    return load


def error_response(api: Api, code: int) -> Any | None:
    """The response that says `code` at its top level, where the API has such a place."""
    response: Any = response_class(api.key)()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = code
    return response
