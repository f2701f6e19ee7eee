"""CreateTopics 2 to 7, DeleteTopics 1 to 6 and CreatePartitions 0 to 3 (KIP-4, 195, 464, 525, 516).

Each topic of a request succeeds or fails for itself. The response goes out when this broker's image
shows all that was done, so that the client's next request finds it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.api.config_entries import creation_sources, describe_topic
from sawlog.cluster.metadata_image import TopicImage
from sawlog.cluster.new_topic import NewTopic
from sawlog.cluster.topics import MAX_PARTITIONS, Answered, PlannedTopic
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
    from sawlog.core.config import BrokerConfig
    from sawlog.protocol.messages.create_partitions_request import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )
    from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest

    class TopicsContext(Protocol):
        config: BrokerConfig
        metadata: MetadataCache
        topics: Topics


DUPLICATE_NAME = "Duplicate topic name."
UNKNOWN_TOPIC = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."
DELETION_DISABLED = "Topic deletion is disabled."
Work = Callable[[Answered], None]


def _when_all(work: Sequence[Work], finished: Callable[[], None]) -> None:
    """Begins everything, and tells when the last is answered; the answers are the work's own."""
    left = len(work)

    def one(_: KafkaError | None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            finished()

    for begin in work:
        begin(one)


# CreateTopics


def create_topics(
    context: "TopicsContext", request: "Request", message: "CreateTopicsRequest"
) -> CreateTopicsResponse | None:
    counts = Counter(topic.name for topic in message.topics)
    results: list[CreatableTopicResult] = []
    work: list[Work] = []
    if _partitions_asked(context, message.topics) > MAX_PARTITIONS:
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
            work.append(_creation(context, planned, results[-1], message.timeout_ms))
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, DUPLICATE_NAME)
    results += [_refused(name, duplicate) for name, count in counts.items() if count > 1]
    response = CreateTopicsResponse(topics=results)
    if not work:
        return response
    _when_all(work, lambda: request.reply(response))
    return None


def _partitions_asked(context: "TopicsContext", topics: "list[CreatableTopic]") -> int:
    """A count below -1 is refused later, and takes nothing off the others' sum."""
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
) -> Work:
    def begin(one: Answered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                refused = _refused(planned.name, error)
                result.error_code = refused.error_code
                result.error_message = refused.error_message
                result.topic_id = NO_TOPIC_ID
                result.num_partitions = result.replication_factor = -1
                result.configs = []
            one(error)

        context.topics.create(planned, timeout_ms, done)

    return begin


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
    asked: list[tuple[str | None, bytes]] = [(name, NO_TOPIC_ID) for name in message.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in message.topics]
    if not context.config["delete.topic.enable"]:
        return _deletion_disabled(request, asked)
    results: list[DeletableTopicResult] = []
    chosen = _topics_to_delete(context, asked, results)
    work = [_deletion(context, topic, results, message.timeout_ms) for topic in chosen]
    response = DeleteTopicsResponse(responses=results)
    if not work:
        return response
    _when_all(work, lambda: request.reply(response))
    return None


def _deletion_disabled(
    request: "Request", asked: list[tuple[str | None, bytes]]
) -> DeleteTopicsResponse:
    code, words = ErrorCode.TOPIC_DELETION_DISABLED, DELETION_DISABLED
    if request.api_version < 3:
        code = ErrorCode.INVALID_REQUEST
    return DeleteTopicsResponse(
        responses=[_not_deleted(name, topic_id, code, words) for name, topic_id in asked]
    )


def _topics_to_delete(
    context: "TopicsContext",
    asked: list[tuple[str | None, bytes]],
    results: list[DeletableTopicResult],
) -> list[TopicImage]:
    """The topics that are named once and exist; for all others a refusal goes into `results`."""
    bad = ErrorCode.INVALID_REQUEST
    chosen: dict[bytes, TopicImage] = {}
    names = Counter(
        name for name, topic_id in asked if name is not None and topic_id == NO_TOPIC_ID
    )
    ids = Counter(topic_id for name, topic_id in asked if name is None)
    for name, topic_id in asked:
        if name is None and topic_id == NO_TOPIC_ID:
            words = "Neither topic name nor id were specified."
            results.append(_not_deleted(None, topic_id, bad, words))
        elif name is not None and topic_id != NO_TOPIC_ID:
            words = "You may not specify both topic name and topic id."
            results.append(_not_deleted(name, topic_id, bad, words))
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
            words = "The provided topic name maps to an ID that was already supplied."
            results.append(_not_deleted(name, topic.id, bad, words))
        else:
            chosen[topic.id] = topic
    return list(chosen.values())


def _not_deleted(
    name: str | None, topic_id: bytes, code: ErrorCode, words: str
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=int(code), error_message=words
    )


def _deletion(
    context: "TopicsContext",
    topic: TopicImage,
    results: list[DeletableTopicResult],
    timeout_ms: int,
) -> Work:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.id)
    results.append(result)

    def begin(one: Answered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                result.error_code = int(error.code)
                result.error_message = error.message or None
            one(error)

        context.topics.delete(topic, timeout_ms, done)

    return begin


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
    work: list[Work] = []
    for topic in message.topics:
        if counts[topic.name] == 1:
            result = CreatePartitionsTopicResult(name=topic.name)
            results.append(result)
            _plan_partitions(context, topic, result, message, work)
    response = CreatePartitionsResponse(results=results)
    if not work:
        return response
    _when_all(work, lambda: request.reply(response))
    return None


def _plan_partitions(
    context: "TopicsContext",
    asked: "CreatePartitionsTopic",
    result: CreatePartitionsTopicResult,
    message: "CreatePartitionsRequest",
    work: list[Work],
) -> None:
    def refuse(error: KafkaError) -> None:
        result.error_code = int(error.code)
        result.error_message = error.message or None

    topic = context.metadata.image.topics.get(TopicName(asked.name))
    chosen = None if asked.assignments is None else [a.broker_ids for a in asked.assignments]
    try:
        replicas = context.topics.plan_partitions(topic, asked.count, chosen)
    except KafkaError as error:
        refuse(error)
        return
    if message.validate_only:
        return
    assert topic is not None

    def begin(one: Answered) -> None:
        def done(error: KafkaError | None) -> None:
            if error is not None:
                refuse(error)
            one(error)

        context.topics.add_partitions(topic, replicas, message.timeout_ms, done)

    work.append(begin)
