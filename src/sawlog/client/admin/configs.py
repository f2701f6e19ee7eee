"""Configs of topics, brokers, groups and broker loggers: list, describe and alter them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection, Response
from sawlog.client.net.metadata import topic_error
from sawlog.core.config_api import ConfigSource, Operation, ResourceType
from sawlog.core.config_values import ConfigType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sawlog.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsSynonym,
)
from sawlog.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sawlog.protocol.messages.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from sawlog.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from sawlog.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
from sawlog.protocol.schema import Message


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A topic, a group or a client metrics subscription by its name; a broker or its loggers by
    its id. The broker '' stands for the defaults of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One origin of a config's value, perhaps under another name."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config. `synonyms` has the origins of its value, the one in force first; it and
    `documentation` are empty unless requested."""

    name: str
    value: str | None  # None for a sensitive config, too
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


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
    synonyms: bool = False,
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
            include_synonyms=synonyms,
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


def list_config_resources(cluster: Cluster, types: Iterable[ResourceType] = ()) -> list[Resource]:
    """Return the resources of these types that can have configs, of all types by default.

    Topics and brokers are listed if they exist, groups and client metrics if they have configs. A
    broker older than Kafka 4.1 has client metrics only: UNSUPPORTED_VERSION for other types.
    """
    wanted = [int(kind) for kind in types]

    def attempt() -> ListConfigResourcesResponse:
        connection = cluster.any_connection()
        has_types = connection.version(ApiKey.LIST_CONFIG_RESOURCES) > 0
        if not has_types and wanted != [ResourceType.CLIENT_METRICS]:
            text = f"{connection.address} lists the resources of client metrics only"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        request = ListConfigResourcesRequest(resource_types=wanted if has_types else [])
        return connection.request(request, ListConfigResourcesResponse)

    response = cluster.retry(attempt)
    if response.error_code:
        raise kafka_error(response.error_code, "the config resources cannot be listed")
    known = {int(kind) for kind in ResourceType}
    return sorted(
        Resource(ResourceType(found.resource_type), found.resource_name)
        for found in response.config_resources
        if found.resource_type in known
    )


def _error(resource: Resource, error_code: int, message: str | None) -> KafkaError:
    if resource.type is ResourceType.TOPIC:
        return topic_error(resource.name, error_code, message)
    return kafka_error(error_code, message or f"there is no {resource}")


def _request(
    cluster: Cluster, resource: Resource, request: Message, response_class: type[Response]
) -> Response:
    """Send the request to any broker; that about one broker to the broker itself."""
    of_broker = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)

    def connection() -> Connection:
        if not of_broker or not resource.name:
            return cluster.any_connection()
        if not resource.name.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"a broker is named by its id, not {resource.name!r}"
            )
        cluster.fetch_metadata([])
        return cluster.connection(NodeId(int(resource.name)))

    return cluster.retry(lambda: connection().request(request, response_class))


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.config_source),
        entry.read_only,
        entry.is_sensitive,
        _type(entry.config_type),
        tuple(map(_synonym, entry.synonyms)),
        entry.documentation,
    )


def _synonym(synonym: DescribeConfigsSynonym) -> ConfigSynonym:
    return ConfigSynonym(synonym.name, synonym.value, _source(synonym.source))


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _type(number: int) -> ConfigType:
    try:
        return ConfigType(number)
    except ValueError:
        return ConfigType.UNKNOWN
