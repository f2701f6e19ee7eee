"""DescribeConfigs 1 to 4, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2 (KIP-133, 226, 339).

The settings of topics can be changed; those of a broker only described: they change by a restart.
Each resource of a request succeeds or fails as a whole.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from sawlog.broker.api.config_entries import (
    Entries,
    describe_broker,
    describe_cluster_wide,
    describe_topic,
)
from sawlog.cluster.metadata_image import TopicImage
from sawlog.cluster.topic_names import check_name
from sawlog.core.config_topic import TOPIC_SETTINGS
from sawlog.core.config_values import ConfigType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
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
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.cluster.topics import Topics
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ids import NodeId
    from sawlog.protocol.messages.alter_configs_request import AlterConfigsRequest
    from sawlog.protocol.messages.describe_configs_request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from sawlog.protocol.messages.incremental_alter_configs_request import (
        AlterableConfig,
        IncrementalAlterConfigsRequest,
    )

    class ConfigsContext(Protocol):
        node_id: NodeId
        config: BrokerConfig
        metadata: MetadataCache
        topics: Topics


ResponseT = TypeVar("ResponseT", AlterConfigsResourceResponse, WholeResourceResponse)

TIMEOUT_MS = 30_000
"""These requests have no timeout; this is the default of Kafka's `request.timeout.ms`."""

MAX_ENTRIES = 100_000
"""Limit for one response of DescribeConfigs: all settings of 3,000 topics."""
TOO_MANY_ENTRIES = "Too many settings for one response: describe fewer resources at a time."


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_EMPTY_NAME = {
    ResourceType.BROKER_LOGGER: "Broker id must not be empty",
    ResourceType.CLIENT_METRICS: "Client metrics subscription name must not be empty",
    ResourceType.GROUP: "Group name must not be empty",
}


class Change(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Configs = Mapping[str, str]


# DescribeConfigs


def describe_configs(
    context: "ConfigsContext", _: "Request", message: "DescribeConfigsRequest"
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
                raise _invalid(MALFORMED)
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
    context: "ConfigsContext", resource_type: int, name: str, message: "DescribeConfigsRequest"
) -> Entries:
    if resource_type == ResourceType.TOPIC:
        check_name(name)
        topic = context.metadata.image.topics.get(TopicName(name))
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(
            context.config,
            topic.configs,
            with_synonyms=message.include_synonyms,
            with_documentation=message.include_documentation,
        )
    if resource_type == ResourceType.BROKER:
        if not name:
            return describe_cluster_wide(context.config)
        _check_broker_name(context, name, "Broker")
        return describe_broker(
            context.config,
            with_synonyms=message.include_synonyms,
            with_documentation=message.include_documentation,
        )
    kind = ResourceType(resource_type)
    if not name:
        raise _invalid(_EMPTY_NAME[kind])
    if kind is ResourceType.CLIENT_METRICS:  # there are no subscriptions
        return ()
    raise _invalid(f"Unsupported resource type: {kind.name}")


def _check_broker_name(context: "ConfigsContext", name: str, what: str) -> None:
    try:
        node = int(name)
    except ValueError:
        raise _invalid(f"{what} id must be an integer, but it is: {name}") from None
    if node != context.node_id or name != str(node):  # "01" is not a name of broker 1
        expected = f"{context.node_id} or empty string" if what == "Broker" else context.node_id
        raise _invalid(f"Unexpected broker id, expected {expected}, but received {name}")


# Alteration


class _Alteration(NamedTuple):
    """One resource of AlterConfigs or IncrementalAlterConfigs."""

    kind: int
    name: str
    keys: list[str]
    nulls: list[str]  # keys without the value that they need
    change: Callable[[Configs], Configs]


def incremental_alter_configs(
    context: "ConfigsContext", request: "Request", message: "IncrementalAlterConfigsRequest"
) -> IncrementalAlterConfigsResponse | None:
    """Change the named settings only."""
    alterations = [
        _Alteration(
            resource.resource_type,
            resource.resource_name,
            [c.name for c in resource.configs],
            [
                c.name
                for c in resource.configs
                if c.value is None and c.config_operation != Change.DELETE
            ],
            partial(_changed, resource.configs),
        )
        for resource in message.resources
    ]

    def reply(errors: list[KafkaError | None]) -> None:
        responses = _responses(alterations, errors, AlterConfigsResourceResponse)
        request.reply(IncrementalAlterConfigsResponse(responses=responses))

    _alter(context, alterations, reply, validate_only=message.validate_only)
    return None


def alter_configs(
    context: "ConfigsContext", request: "Request", message: "AlterConfigsRequest"
) -> AlterConfigsResponse | None:
    """Replace all settings of a topic; settings that are not named get their defaults."""
    alterations = [
        _Alteration(
            resource.resource_type,
            resource.resource_name,
            [c.name for c in resource.configs],
            [c.name for c in resource.configs if c.value is None],
            partial(_replaced, {c.name: c.value or "" for c in resource.configs}),
        )
        for resource in message.resources
    ]

    def reply(errors: list[KafkaError | None]) -> None:
        responses = _responses(alterations, errors, WholeResourceResponse)
        request.reply(AlterConfigsResponse(responses=responses))

    _alter(context, alterations, reply, validate_only=message.validate_only)
    return None


def _responses(
    alterations: list[_Alteration], errors: list[KafkaError | None], kind: Callable[..., ResponseT]
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
    context: "ConfigsContext",
    alterations: list[_Alteration],
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
                raise _invalid("Each resource must appear at most once.")
            topic = _checked(context, alteration)
        except KafkaError as error:
            errors[index] = error
            continue
        if not validate_only:
            left += 1
            context.topics.alter_configs(
                topic,
                partial(_new_configs, context, alteration),
                TIMEOUT_MS,
                partial(altered, index),
            )
    left -= 1
    if left == 0:
        finished(errors)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def _checked(context: "ConfigsContext", alteration: _Alteration) -> TopicImage:
    """Check an alteration against the image, in Kafka's order; return its topic."""
    if len(set(alteration.keys)) < len(alteration.keys):
        raise _invalid("Error due to duplicate config keys")
    if alteration.nulls:
        raise _invalid(f"Null value not supported for : {', '.join(alteration.nulls)}")
    if alteration.kind == ResourceType.BROKER:
        if alteration.name:
            _check_broker_name(context, alteration.name, "Node")
        keys = ", ".join(alteration.keys)
        raise _invalid(f"Cannot update these configs dynamically: [{keys}]")
    if alteration.kind != ResourceType.TOPIC:
        raise _invalid(f"Unknown resource type {alteration.kind}")
    if not alteration.name:
        raise _invalid("Default topic resources are not allowed.")
    check_name(alteration.name)
    topic = context.metadata.image.topics.get(TopicName(alteration.name))
    _new_configs(context, alteration, topic.configs if topic is not None else {})
    if topic is None:
        text = f"The topic '{alteration.name}' does not exist."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return topic


def _new_configs(context: "ConfigsContext", alteration: _Alteration, configs: Configs) -> Configs:
    new = alteration.change(configs)
    context.topics.check_configs(new)
    return new


def _replaced(new: Configs, _: Configs) -> Configs:
    return new


def _changed(changes: Sequence["AlterableConfig"], configs: Configs) -> Configs:
    new = dict(configs)
    for change in changes:
        value = change.value or ""
        if change.config_operation == Change.SET:
            new[change.name] = value
        elif change.config_operation == Change.DELETE:
            new.pop(change.name, None)
        elif change.config_operation in (Change.APPEND, Change.SUBTRACT):
            new[change.name] = _changed_list(change, new.get(change.name))
        else:
            raise _invalid(f"Unknown operations type {change.config_operation}")
    return new


def _changed_list(change: "AlterableConfig", old: str | None) -> str:
    setting = TOPIC_SETTINGS.get(change.name)
    if setting is None or setting.type is not ConfigType.LIST:
        verb = Change(change.config_operation).name
        problem = f"Can't {verb} to key {change.name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    text = setting.default if old is None else old
    items = [item for item in (text or "").split(",") if item]
    for item in (change.value or "").split(","):
        if change.config_operation == Change.APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)
