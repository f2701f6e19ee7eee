"""Configs of topics and brokers: describe them, and alter single ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection, Response
from sawlog.client.net.metadata import topic_error
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sawlog.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from sawlog.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sawlog.protocol.messages.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from sawlog.protocol.schema import Message


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    BROKER_FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A topic by its name, or a broker by its id ('' for the defaults of all brokers)."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None  # None for a sensitive config, too
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """`value` is a comma-separated list for APPEND and SUBTRACT, and None for DELETE."""

    name: str
    operation: Operation
    value: str | None = None


def describe_configs(
    cluster: Cluster,
    resources: Iterable[Resource],
    *,
    names: Sequence[str] | None = None,
    documentation: bool = False,
) -> dict[Resource, list[ConfigEntry]]:
    """Return all configs of each resource, or those in `names`; KafkaError if one fails."""
    found: dict[Resource, list[ConfigEntry]] = {}
    for resource in resources:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else list(names),
                )
            ],
            include_documentation=documentation,
        )
        response = _request(cluster, resource, request, DescribeConfigsResponse)
        for result in response.results:
            if result.error_code:
                raise _error(resource, result.error_code, result.error_message)
            entries = [_entry(entry) for entry in result.configs]
            found[resource] = sorted(entries, key=lambda entry: entry.name)
    return found


def alter_configs(
    cluster: Cluster,
    changes: Mapping[Resource, Sequence[Change]],
    *,
    validate_only: bool = False,
) -> dict[Resource, KafkaError]:
    """Alter the named configs only; returns the errors by resource.

    Every operation is idempotent (APPEND and SUBTRACT ignore values that are already present or
    absent), so it is retried until the timeout.
    """
    errors: dict[Resource, KafkaError] = {}
    for resource, wanted in changes.items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=change.value,
                        )
                        for change in wanted
                    ],
                )
            ],
            validate_only=validate_only,
        )
        response = _request(cluster, resource, request, IncrementalAlterConfigsResponse)
        for result in response.responses:
            if result.error_code:
                errors[resource] = _error(resource, result.error_code, result.error_message)
    return errors


def _error(resource: Resource, error_code: int, message: str | None) -> KafkaError:
    if resource.type is ResourceType.TOPIC:
        return topic_error(resource.name, error_code, message)
    return kafka_error(error_code, message or f"there is no {resource}")


def _request(
    cluster: Cluster, resource: Resource, request: Message, response_class: type[Response]
) -> Response:
    """Send the request to any broker; that about one broker to the broker itself."""

    def connection() -> Connection:
        if resource.type is not ResourceType.BROKER or not resource.name:
            return cluster.any_connection()
        if not resource.name.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"a broker is named by its id, not {resource.name!r}"
            )
        cluster.fetch_metadata([])
        return cluster.connection(NodeId(int(resource.name)))

    return cluster.retry(lambda: connection().request(request, response_class))


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    try:
        source = ConfigSource(entry.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    return ConfigEntry(
        entry.name,
        entry.value,
        source,
        entry.read_only,
        entry.is_sensitive,
        entry.documentation,
    )
