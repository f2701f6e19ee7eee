"""DescribeConfigs 1 to 4, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2 (KIP-133, 226, 339),
ListConfigResources 0 to 1 (KIP-1142).

Topics, brokers, groups, client metrics subscriptions and the loggers of a broker have configs. Each
resource of a request succeeds or fails as a whole.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sawlog.broker.api.config_changes import (
    Alteration,
    Change,
    ConfigsContext,
    check_broker_name,
    invalid,
    prepare,
)
from sawlog.broker.api.config_entries import (
    Entries,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
)
from sawlog.cluster.metadata_image import ConfigKind, ConfigResource, MetadataImage
from sawlog.cluster.topic_names import check_name
from sawlog.core.config_api import Operation, ResourceType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.protocol.messages import list_config_resources_response as listing
from sawlog.protocol.messages.alter_configs_response import (
    AlterConfigsResourceResponse as WholeResourceResponse,
)
from sawlog.protocol.messages.alter_configs_response import AlterConfigsResponse
from sawlog.protocol.messages.describe_configs_response import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sawlog.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.alter_configs_request import AlterConfigsRequest
    from sawlog.protocol.messages.describe_configs_request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from sawlog.protocol.messages.incremental_alter_configs_request import (
        IncrementalAlterConfigsRequest,
    )
    from sawlog.protocol.messages.list_config_resources_request import ListConfigResourcesRequest


ResponseT = TypeVar("ResponseT", AlterConfigsResourceResponse, WholeResourceResponse)

MAX_ENTRIES = 100_000
"""Limit for one response of DescribeConfigs: all settings of 3,000 topics."""
TOO_MANY_ENTRIES = "Too many settings for one response: describe fewer resources at a time."
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_EMPTY_NAME = {
    ResourceType.BROKER_LOGGER: "Broker id must not be empty",
    ResourceType.CLIENT_METRICS: "Client metrics subscription name must not be empty",
    ResourceType.GROUP: "Group name must not be empty",
}
_KINDS = {
    ResourceType.CLIENT_METRICS: ConfigKind.CLIENT_METRICS,
    ResourceType.GROUP: ConfigKind.GROUP,
}


# DescribeConfigs


def describe_configs(
    context: ConfigsContext, _: "Request", message: "DescribeConfigsRequest"
) -> DescribeConfigsResponse:
    """Describe each resource once, however often it is named: clients keep one result for it."""
    known = {int(kind) for kind in ResourceType}
    has_unknown = any(resource.resource_type not in known for resource in message.resources)
    results: list[DescribeConfigsResult] = []
    left = MAX_ENTRIES
    for (kind, name), keys in _requested_keys(message.resources).items():
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        results.append(result)
        try:
            if has_unknown:  # one unknown type fails the whole request
                raise invalid(MALFORMED)
            entries = _described(context, kind, name, message)
            chosen = [e for e in entries if not keys or e.name in keys]
            if len(chosen) > left:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_ENTRIES)
            left -= len(chosen)
            result.configs = chosen
        except KafkaError as error:
            result.error_code = int(error.code)
            result.error_message = error.message
    return DescribeConfigsResponse(results=results)


def _requested_keys(
    resources: "Sequence[DescribeConfigsResource]",
) -> dict[tuple[int, str], set[str]]:
    """Return the requested settings of every resource; an empty set means all."""
    requested: dict[tuple[int, str], set[str]] = {}
    for resource in resources:
        name = resource.resource_type, resource.resource_name
        keys = set(resource.configuration_keys or ())
        before = requested.get(name, keys)
        requested[name] = keys | before if keys and before else set()
    return requested


def _described(
    context: ConfigsContext, resource_type: int, name: str, message: "DescribeConfigsRequest"
) -> Entries:
    config, image = context.config, context.metadata.image
    kind = ResourceType(resource_type)
    options = {
        "with_synonyms": message.include_synonyms,
        "with_documentation": message.include_documentation,
    }
    if kind is ResourceType.TOPIC:
        check_name(name)
        topic = image.topics.get(TopicName(name))
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(config, topic.configs, **options)
    if kind is ResourceType.BROKER and not name:
        return describe_all_brokers(config, **options)
    if not name:
        raise invalid(_EMPTY_NAME[kind])
    if kind is ResourceType.GROUP:
        given = image.configs_of(ConfigResource(ConfigKind.GROUP, name))
        return describe_group(config, given, **options)
    if kind is ResourceType.CLIENT_METRICS:
        given = image.configs_of(ConfigResource(ConfigKind.CLIENT_METRICS, name))
        return describe_client_metrics(given, **options)
    if kind is ResourceType.BROKER_LOGGER:
        check_broker_name(context, name, "Node")
        return describe_loggers()
    check_broker_name(context, name, "Broker")
    return describe_broker(config, **options)


# ListConfigResources


def list_config_resources(
    context: ConfigsContext, request: "Request", message: "ListConfigResourcesRequest"
) -> listing.ListConfigResourcesResponse:
    """List the resources that exist (topics, brokers) or have configs (groups, subscriptions).

    Version 0 was ListClientMetricsResources.
    """
    wanted = set(message.resource_types) or {int(kind) for kind in ResourceType}
    if request.api_version == 0:
        wanted = {int(ResourceType.CLIENT_METRICS)}
    if not wanted <= {int(kind) for kind in ResourceType}:
        return listing.ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    image = context.metadata.image
    return listing.ListConfigResourcesResponse(
        config_resources=[
            listing.ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _resource_names(image, ResourceType(kind))
        ]
    )


def _resource_names(image: MetadataImage, kind: ResourceType) -> Iterator[str]:
    if kind is ResourceType.TOPIC:
        yield from sorted(image.topics)
    elif kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        yield from (str(node) for node in sorted(image.brokers))
    else:
        for resource, found in sorted(image.configs.items(), key=lambda item: item[0].name):
            if resource.kind is _KINDS[kind] and found.configs:
                yield resource.name


# Alteration


def incremental_alter_configs(
    context: ConfigsContext, request: "Request", message: "IncrementalAlterConfigsRequest"
) -> IncrementalAlterConfigsResponse | None:
    """Change the named settings only."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(c.name, c.config_operation, c.value) for c in resource.configs],
            replaces=False,
        )
        for resource in message.resources
    ]

    def reply(errors: list[KafkaError | None]) -> None:
        responses = _responses(alterations, errors, AlterConfigsResourceResponse)
        request.reply(IncrementalAlterConfigsResponse(responses=responses))

    _alter(context, alterations, reply, validate_only=message.validate_only)
    return None


def alter_configs(
    context: ConfigsContext, request: "Request", message: "AlterConfigsRequest"
) -> AlterConfigsResponse | None:
    """Replace all settings of a resource; settings that are not named get their defaults."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(c.name, Operation.SET, c.value) for c in resource.configs],
            replaces=True,
        )
        for resource in message.resources
    ]

    def reply(errors: list[KafkaError | None]) -> None:
        responses = _responses(alterations, errors, WholeResourceResponse)
        request.reply(AlterConfigsResponse(responses=responses))

    _alter(context, alterations, reply, validate_only=message.validate_only)
    return None


def _responses(
    alterations: list[Alteration], errors: list[KafkaError | None], kind: Callable[..., ResponseT]
) -> list[ResponseT]:
    return [
        kind(
            error_code=0 if error is None else int(error.code),
            error_message=None if error is None else error.message or None,
            resource_type=alteration.kind,
            resource_name=alteration.name,
        )
        for alteration, error in zip(alterations, errors, strict=True)
    ]


def _alter(
    context: ConfigsContext,
    alterations: list[Alteration],
    finished: Callable[[list[KafkaError | None]], None],
    *,
    validate_only: bool,
) -> None:
    """Call `finished` with an error or None for each alteration, now or later."""
    errors: list[KafkaError | None] = [None] * len(alterations)
    counts = Counter((alteration.kind, alteration.name) for alteration in alterations)
    left = 1

    def altered(index: int, error: KafkaError | None) -> None:
        nonlocal left
        errors[index] = error
        left -= 1
        if left == 0:
            finished(errors)

    for index, alteration in enumerate(alterations):
        try:
            if counts[alteration.kind, alteration.name] > 1:
                raise invalid("Each resource must appear at most once.")
            write = prepare(context, alteration)
        except KafkaError as error:
            errors[index] = error
            continue
        if not validate_only:
            left += 1
            write(partial(altered, index))
    left -= 1
    if left == 0:
        finished(errors)
