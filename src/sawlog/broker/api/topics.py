"""CreateTopics 2 to 7, DeleteTopics 1 to 6 and CreatePartitions 0 to 3 (KIP-4, 195, 464, 525, 516).

Each topic of a request succeeds or fails on its own. The response is sent when this broker's image
has all changes, so that the client's next request sees them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.api.config_entries import creation_sources, describe_topic
from sawlog.cluster.metadata_image import TopicImage
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.topics import MAX_PARTITIONS, OnAnswered, PlannedTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NO_TOPIC_ID, TopicName
from sawlog.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from sawlog.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from sawlog.protocol.messages.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.cluster.topics import Topics
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.protocol.messages.create_partitions_request import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )
    from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest

    class TopicsContext(Protocol):
        config: DynamicBrokerConfig
        metadata: MetadataCache
        topics: Topics


DUPLICATE_NAME = "Duplicate topic name."
UNKNOWN_TOPIC = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."
DELETION_DISABLED = "Topic deletion is disabled."
Change = Callable[[OnAnswered], None]
"""Starts a change of one topic and calls its argument when the image has it."""


def _run_all(changes: Sequence[Change], finished: Callable[[], None]) -> None:
    """Start all changes, and call `finished` after the last; each sets its own result."""
    left = len(changes)

    def one_done(_: KafkaError | None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            finished()

    for start in changes:
        start(one_done)


# CreateTopics


def create_topics(
    context: "TopicsContext", request: "Request", message: "CreateTopicsRequest"
) -> CreateTopicsResponse | None:
    counts = Counter(topic.name for topic in message.topics)
    results: list[CreatableTopicResult] = []
    changes: list[Change] = []
    if _partition_count(context, message.topics) > MAX_PARTITIONS:
        excessive = KafkaError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
        return CreateTopicsResponse(topics=[_refused(name, excessive) for name in counts])
    for topic in message.topics:
        if counts[topic.name] > 1:
            continue
        try:
            planned = context.topics.plan(_new_topic(topic))
        except KafkaError as error:
            results.append(_refused(topic.name, error))
            continue
        results.append(_created(context, planned))
        if not message.validate_only:
            changes.append(_creation(context, planned, results[-1], message.timeout_ms))
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, DUPLICATE_NAME)
    results += [_refused(name, duplicate) for name, count in counts.items() if count > 1]
    response = CreateTopicsResponse(topics=results)
    if not changes:
        return response
    _run_all(changes, lambda: request.reply(response))
    return None


def _partition_count(context: "TopicsContext", topics: "list[CreatableTopic]") -> int:
    """Count the partitions of a request; an invalid negative count, refused later, counts as 0."""
    default: int = context.config["num.partitions"]
    return sum(
        len(topic.assignments)
        or (default if topic.num_partitions == -1 else max(0, topic.num_partitions))
        for topic in topics
    )


def _new_topic(topic: "CreatableTopic") -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(a.partition_index, a.broker_ids) for a in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _creation(
    context: "TopicsContext", planned: PlannedTopic, result: CreatableTopicResult, timeout_ms: int
) -> Change:
    def start(finished: OnAnswered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                refused = _refused(planned.name, error)
                result.error_code = refused.error_code
                result.error_message = refused.error_message
                result.topic_id = NO_TOPIC_ID
                result.num_partitions = result.replication_factor = -1
                result.configs = []
            finished(error)

        context.topics.create(planned, timeout_ms, done)

    return start


def _created(context: "TopicsContext", planned: PlannedTopic) -> CreatableTopicResult:
    entries = describe_topic(context.config, planned.configs, with_synonyms=False)
    sources = creation_sources(context.config, planned.configs)
    return CreatableTopicResult(
        name=planned.name,
        topic_id=planned.id,
        error_message=None,
        num_partitions=len(planned.replicas),
        replication_factor=len(planned.replicas[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name, value=entry.value, config_source=sources[entry.name]
            )
            for entry in entries
        ],
    )


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=int(error.code), error_message=error.message or None
    )


# DeleteTopics


def delete_topics(
    context: "TopicsContext", request: "Request", message: "DeleteTopicsRequest"
) -> DeleteTopicsResponse | None:
    requested: list[tuple[str | None, bytes]] = [
        (name, NO_TOPIC_ID) for name in message.topic_names
    ]
    requested += [(topic.name, topic.topic_id) for topic in message.topics]
    if not context.config["delete.topic.enable"]:
        return _deletion_disabled(request, requested)
    results: list[DeletableTopicResult] = []
    chosen = _topics_to_delete(context, requested, results)
    changes = [_deletion(context, topic, results, message.timeout_ms) for topic in chosen]
    response = DeleteTopicsResponse(responses=results)
    if not changes:
        return response
    _run_all(changes, lambda: request.reply(response))
    return None


def _deletion_disabled(
    request: "Request", requested: list[tuple[str | None, bytes]]
) -> DeleteTopicsResponse:
    code, text = ErrorCode.TOPIC_DELETION_DISABLED, DELETION_DISABLED
    if request.api_version < 3:
        code = ErrorCode.INVALID_REQUEST
    return DeleteTopicsResponse(
        responses=[_not_deleted(name, topic_id, code, text) for name, topic_id in requested]
    )


def _topics_to_delete(
    context: "TopicsContext",
    requested: list[tuple[str | None, bytes]],
    results: list[DeletableTopicResult],
) -> list[TopicImage]:
    """Return the topics that exist and are named once; append an error for each other one to
    `results`."""
    bad = ErrorCode.INVALID_REQUEST
    chosen: dict[bytes, TopicImage] = {}
    names = Counter(
        name for name, topic_id in requested if name is not None and topic_id == NO_TOPIC_ID
    )
    ids = Counter(topic_id for name, topic_id in requested if name is None)
    for name, topic_id in requested:
        if name is None and topic_id == NO_TOPIC_ID:
            text = "Neither topic name nor id were specified."
            results.append(_not_deleted(None, topic_id, bad, text))
        elif name is not None and topic_id != NO_TOPIC_ID:
            text = "You may not specify both topic name and topic id."
            results.append(_not_deleted(name, topic_id, bad, text))
    results += [_not_deleted(n, NO_TOPIC_ID, bad, DUPLICATE_NAME) for n in names if names[n] > 1]
    for topic_id, count in ids.items():
        topic = context.metadata.image.topic_by_id(topic_id)
        if topic_id == NO_TOPIC_ID:
            continue
        if count > 1:
            results.append(_not_deleted(None, topic_id, bad, "Duplicate topic id."))
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            results.append(_not_deleted(None, topic_id, code, UNKNOWN_ID))
        else:
            chosen[topic_id] = topic
    for name in names:
        if names[name] > 1:
            continue
        topic = context.metadata.image.topics.get(TopicName(name))
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(_not_deleted(name, NO_TOPIC_ID, code, UNKNOWN_TOPIC))
        elif topic.id in ids:
            chosen.pop(topic.id, None)
            text = "The provided topic name maps to an ID that was already supplied."
            results.append(_not_deleted(name, topic.id, bad, text))
        else:
            chosen[topic.id] = topic
    return list(chosen.values())


def _not_deleted(
    name: str | None, topic_id: bytes, code: ErrorCode, text: str
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=int(code), error_message=text
    )


def _deletion(
    context: "TopicsContext",
    topic: TopicImage,
    results: list[DeletableTopicResult],
    timeout_ms: int,
) -> Change:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.id)
    results.append(result)

    def start(finished: OnAnswered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                result.error_code = int(error.code)
                result.error_message = error.message or None
            finished(error)

        context.topics.delete(topic, timeout_ms, done)

    return start


# CreatePartitions


def create_partitions(
    context: "TopicsContext", request: "Request", message: "CreatePartitionsRequest"
) -> CreatePartitionsResponse | None:
    counts = Counter(topic.name for topic in message.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=int(ErrorCode.INVALID_REQUEST), error_message=DUPLICATE_NAME
        )
        for name, count in counts.items()
        if count > 1
    ]
    changes: list[Change] = []
    for topic in message.topics:
        if counts[topic.name] == 1:
            result = CreatePartitionsTopicResult(name=topic.name)
            results.append(result)
            _plan_partitions(context, topic, result, message, changes)
    response = CreatePartitionsResponse(results=results)
    if not changes:
        return response
    _run_all(changes, lambda: request.reply(response))
    return None


def _plan_partitions(
    context: "TopicsContext",
    requested: "CreatePartitionsTopic",
    result: CreatePartitionsTopicResult,
    message: "CreatePartitionsRequest",
    changes: list[Change],
) -> None:
    def refuse(error: KafkaError) -> None:
        result.error_code = int(error.code)
        result.error_message = error.message or None

    topic = context.metadata.image.topics.get(TopicName(requested.name))
    chosen = (
        None if requested.assignments is None else [a.broker_ids for a in requested.assignments]
    )
    try:
        replicas = context.topics.plan_partitions(topic, requested.count, chosen)
    except KafkaError as error:
        refuse(error)
        return
    if message.validate_only:
        return
    assert topic is not None

    def start(finished: OnAnswered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                refuse(error)
            finished(error)

        context.topics.add_partitions(topic, replicas, message.timeout_ms, done)

    changes.append(start)
