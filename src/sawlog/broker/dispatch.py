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

_HANDLERS: dict[str, dict[ApiKey, str]] = {
    "sawlog.broker.api.produce": {
        ApiKey.PRODUCE: "produce",
    },
    "sawlog.broker.api.fetch": {
        ApiKey.FETCH: "fetch",
    },
    "sawlog.broker.api.list_offsets": {
        ApiKey.LIST_OFFSETS: "list_offsets",
        ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    },
    "sawlog.broker.api.metadata": {
        ApiKey.METADATA: "metadata",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    },
    "sawlog.broker.api.group_offsets": {
        ApiKey.OFFSET_COMMIT: "offset_commit",
        ApiKey.OFFSET_FETCH: "offset_fetch",
        ApiKey.OFFSET_DELETE: "offset_delete",
    },
    "sawlog.broker.api.find_coordinator": {
        ApiKey.FIND_COORDINATOR: "find_coordinator",
    },
    "sawlog.broker.api.group_membership": {
        ApiKey.JOIN_GROUP: "join_group",
        ApiKey.HEARTBEAT: "heartbeat",
        ApiKey.LEAVE_GROUP: "leave_group",
        ApiKey.SYNC_GROUP: "sync_group",
    },
    "sawlog.broker.api.group_admin": {
        ApiKey.DESCRIBE_GROUPS: "describe_groups",
        ApiKey.LIST_GROUPS: "list_groups",
        ApiKey.DELETE_GROUPS: "delete_groups",
    },
    "sawlog.broker.api.api_versions": {
        ApiKey.API_VERSIONS: "api_versions",
    },
    "sawlog.broker.api.topics": {
        ApiKey.CREATE_TOPICS: "create_topics",
        ApiKey.DELETE_TOPICS: "delete_topics",
        ApiKey.CREATE_PARTITIONS: "create_partitions",
    },
    "sawlog.broker.api.delete_records": {
        ApiKey.DELETE_RECORDS: "delete_records",
    },
    "sawlog.broker.api.init_producer_id": {
        ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    },
    "sawlog.broker.api.configs": {
        ApiKey.DESCRIBE_CONFIGS: "describe_configs",
        ApiKey.ALTER_CONFIGS: "alter_configs",
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    },
    "sawlog.broker.api.acls": {
        ApiKey.DESCRIBE_ACLS: "describe_acls",
        ApiKey.CREATE_ACLS: "create_acls",
        ApiKey.DELETE_ACLS: "delete_acls",
    },
    "sawlog.broker.api.describe_cluster": {
        ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    },
    "sawlog.broker.api.consumer_groups": {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
        ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    },
}
"""The function of each, by module. A module is imported with the first request for it: a broker
without groups carries none of their code."""


def served_apis() -> dict[int, Api]:
    """Every API that this broker serves, by its number."""
    return {
        int(key): Api(key, _when_asked(module, function))
        for module, functions in _HANDLERS.items()
        for key, function in functions.items()
    }


def _when_asked(module: str, function: str) -> Callable[[], Handler]:
    def load() -> Handler:
        handler: Handler = getattr(import_module(module), function)
        return handler

    return load


def error_response(api: Api, code: int) -> Any | None:
    """The response that says `code` at its top level, where the API has such a place."""
    response: Any = response_class(api.key)()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = code
    return response
