"""The changes of AlterConfigs and IncrementalAlterConfigs: checks, and how each is written.

`prepare` checks the change of one resource against the image, in Kafka's order and with its codes,
and returns a function that writes it. The check is repeated on the configs that are written.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sawlog.cluster.metadata_image import ConfigKind, ConfigResource
from sawlog.cluster.topic_names import check_name
from sawlog.core.config_api import Operation, ResourceType
from sawlog.core.config_client_metrics import check_client_metrics
from sawlog.core.config_dynamic import CLUSTER_WIDE, setting_of
from sawlog.core.config_groups import GROUP_SETTINGS, check_group_configs
from sawlog.core.config_topic import TOPIC_SETTINGS
from sawlog.core.config_values import ConfigError, ConfigType, Setting
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName
from sawlog.core.logger_levels import LEVELS, ROOT, has_logger, set_logger_level
from sawlog.protocol.wire_primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.cluster.resource_configs import ResourceConfigs
    from sawlog.cluster.topics import Topics
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ids import NodeId

TIMEOUT_MS = 30_000
"""These requests have no timeout; this is the default of Kafka's `request.timeout.ms`."""

Configs = Mapping[str, str]
OnAnswered = Callable[[KafkaError | None], None]
Write = Callable[[OnAnswered], None]
"""Starts a change and calls its argument when the image has it."""


class ConfigsContext(Protocol):
    node_id: "NodeId"
    config: "DynamicBrokerConfig"
    metadata: "MetadataCache"
    topics: "Topics"
    resource_configs: "ResourceConfigs"


class Change(NamedTuple):
    """`operation` is a number from the client, which may be no Operation."""

    name: str
    operation: int
    value: str | None


class Alteration(NamedTuple):
    """One resource of a request. `replaces` is for AlterConfigs, which resets all other configs."""

    kind: int
    name: str
    changes: Sequence[Change]
    replaces: bool


def invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def check_broker_name(context: ConfigsContext, name: str, what: str) -> None:
    try:
        node = int(name)
    except ValueError:
        raise invalid(f"{what} id must be an integer, but it is: {name}") from None
    if node != context.node_id or name != str(node):  # "01" is not a name of broker 1
        expected = f"{context.node_id} or empty string" if what == "Broker" else context.node_id
        raise invalid(f"Unexpected broker id, expected {expected}, but received {name}")


def prepare(context: ConfigsContext, alteration: Alteration) -> Write:
    names = [change.name for change in alteration.changes]
    if len(set(names)) < len(names):
        raise invalid("Error due to duplicate config keys")
    nulls = [
        change.name
        for change in alteration.changes
        if change.value is None and change.operation != Operation.DELETE
    ]
    if nulls:
        raise invalid(f"Null value not supported for : {', '.join(nulls)}")
    if alteration.kind == ResourceType.TOPIC:
        return _prepare_topic(context, alteration)
    if alteration.kind == ResourceType.BROKER:
        return _prepare_broker(context, alteration)
    if alteration.kind == ResourceType.GROUP:
        return _prepare_group(context, alteration)
    if alteration.kind == ResourceType.CLIENT_METRICS:
        return _prepare_client_metrics(context, alteration)
    if alteration.kind == ResourceType.BROKER_LOGGER and not alteration.replaces:
        return _prepare_loggers(context, alteration)
    raise invalid(f"Unknown resource type {alteration.kind}")


# Kinds of resources


def _prepare_topic(context: ConfigsContext, alteration: Alteration) -> Write:
    if not alteration.name:
        raise invalid("Default topic resources are not allowed.")
    check_name(alteration.name)

    def change(configs: Configs) -> Configs:
        new = _changed(alteration, configs, TOPIC_SETTINGS.get)
        context.topics.check_configs(new)
        return new

    topic = context.metadata.image.topics.get(TopicName(alteration.name))
    change(topic.configs if topic is not None else {})
    if topic is None:
        text = f"The topic '{alteration.name}' does not exist."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return partial(context.topics.alter_configs, topic, change, TIMEOUT_MS)


def _prepare_broker(context: ConfigsContext, alteration: Alteration) -> Write:
    per_broker = bool(alteration.name)
    if per_broker:
        check_broker_name(context, alteration.name, "Node")

    def change(configs: Configs) -> Configs:
        new = _changed(alteration, configs, setting_of)
        try:
            context.config.check(new, per_broker=per_broker)
        except ConfigError as error:
            # Kafka has this code too where INVALID_CONFIG would fit better (KAFKA-13609).
            raise invalid(str(error)) from error
        _check_cluster_wide(alteration, new)
        return new

    return _prepare_resource(context, ConfigKind.BROKER, alteration.name, change)


def _check_cluster_wide(alteration: Alteration, new: Configs) -> None:
    """Elections depend on this setting: it is the same in all brokers, and always set."""
    if alteration.name:
        if any(change.name == CLUSTER_WIDE for change in alteration.changes):
            text = f"{CLUSTER_WIDE} can be set for all brokers only (broker ''), not for one"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    elif (
        CLUSTER_WIDE not in new
        if alteration.replaces
        else any(change[:2] == (CLUSTER_WIDE, Operation.DELETE) for change in alteration.changes)
    ):
        text = f"{CLUSTER_WIDE} of all brokers cannot be removed: set it to another value"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _prepare_group(context: ConfigsContext, alteration: Alteration) -> Write:
    if not alteration.name:
        raise invalid("Default group resources are not allowed.")

    def change(configs: Configs) -> Configs:
        new = _changed(alteration, configs, GROUP_SETTINGS.get)
        try:
            check_group_configs(context.config, new)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return new

    return _prepare_resource(context, ConfigKind.GROUP, alteration.name, change)


def _prepare_client_metrics(context: ConfigsContext, alteration: Alteration) -> Write:
    def change(configs: Configs) -> Configs:
        new = _changed(alteration, configs, _no_list)  # Kafka knows no types here
        try:
            check_client_metrics(alteration.name, new)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return new

    return _prepare_resource(context, ConfigKind.CLIENT_METRICS, alteration.name, change)


def _no_list(_: str) -> None:
    """Find no setting, as if it were not a list."""


def _prepare_resource(
    context: ConfigsContext, kind: ConfigKind, name: str, change: Callable[[Configs], Configs]
) -> Write:
    resource = ConfigResource(kind, name)
    change(context.metadata.image.configs_of(resource))
    return partial(context.resource_configs.alter, resource, change, TIMEOUT_MS)


def _prepare_loggers(context: ConfigsContext, alteration: Alteration) -> Write:
    """The levels of this process's loggers; they are not stored (KIP-412)."""
    check_broker_name(context, alteration.name, "Node")
    for change in alteration.changes:
        _check_level(change)

    def write(done: OnAnswered) -> None:
        for change in alteration.changes:
            is_deleted = change.operation == Operation.DELETE
            set_logger_level(change.name, None if is_deleted else change.value)
        done(None)

    return write


def _check_level(change: Change) -> None:
    if change.operation not in list(Operation):
        raise invalid(f"Unknown operations type {change.operation}")
    operation = Operation(change.operation)
    if operation not in (Operation.SET, Operation.DELETE):
        raise invalid(f"{operation.name} operation is not allowed for the BROKER_LOGGER resource")
    if operation is Operation.DELETE and change.name == ROOT:
        raise invalid("Removing the log level of the root logger is not allowed")
    if not has_logger(change.name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if operation is Operation.SET and change.value not in LEVELS:
        text = (
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported"
            f" log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


# Operations


def _changed(
    alteration: Alteration, configs: Configs, find: Callable[[str], Setting | None]
) -> Configs:
    """Return the configs after the changes; `find` returns a setting by its name.

    A list that APPEND makes too long for a string of the protocol is refused: no response could
    have it.
    """
    new = {} if alteration.replaces else dict(configs)
    for change in alteration.changes:
        value = change.value or ""
        if change.operation == Operation.SET:
            new[change.name] = value
        elif change.operation == Operation.DELETE:
            new.pop(change.name, None)
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            new[change.name] = _changed_list(change, find(change.name), new.get(change.name))
        else:
            raise invalid(f"Unknown operations type {change.operation}")
        size = len(new.get(change.name, "").encode())
        if size > MAX_STRING_BYTES:
            text = (
                f"The value of {change.name} would have {size} bytes, more than {MAX_STRING_BYTES}"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    return new


def _changed_list(change: Change, setting: Setting | None, old: str | None) -> str:
    if setting is None or setting.type is not ConfigType.LIST:
        verb = Operation(change.operation).name
        problem = f"Can't {verb} to key {change.name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    text = setting.default if old is None else old
    items = [item for item in (text or "").split(",") if item]
    for item in (change.value or "").split(","):
        if change.operation == Operation.APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)
