"""What a running broker says about its topics: offsets, ids, configs. Files are not read here."""

from collections.abc import Iterable

from sawlog.backup.partition_copy import Bounds
from sawlog.client.admin.admin import Admin, ClusterDescription
from sawlog.client.admin.configs import Resource
from sawlog.client.admin.list_offsets import EARLIEST, LATEST
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.metadata import Topic
from sawlog.client.producer.sequence_numbers import init_producer_id
from sawlog.cluster.metadata_image import ConfigKind
from sawlog.core.config_api import ConfigSource, ResourceType
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition

OTHER_RESOURCES = (
    (ConfigKind.GROUP, ResourceType.GROUP, ConfigSource.GROUP),
    (ConfigKind.CLIENT_METRICS, ResourceType.CLIENT_METRICS, ConfigSource.CLIENT_METRICS),
)
"""Resources with configs of their own besides topics and brokers."""


class RunningBroker:
    """Reads through the Kafka protocol, not from the store's journal, which is half a step ahead
    of or behind what clients were told."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster)

    def describe(self) -> ClusterDescription:
        return self._admin.describe_cluster()

    def topics(self) -> list[Topic]:
        """Return all topics, internal ones too; an error if the state of one is unknown."""

        def attempt() -> list[Topic]:
            metadata = self._cluster.fetch_metadata(None)
            for error in metadata.errors.values():
                raise error
            return sorted(metadata.topics.values(), key=lambda topic: topic.name)

        return self._cluster.retry(attempt)

    def has_topic(self, topic: Topic) -> bool:
        """Whether this topic still exists, and not a new one of the same name."""
        found, errors = self._admin.describe_topics([topic.name])
        for error in errors.values():
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
        return any(each.id == topic.id for each in found)

    def bounds(self, partition: TopicPartition) -> Bounds:
        """Return the offsets that the broker serves; the high watermark is asked last."""
        start = self._admin.list_offsets({partition: EARLIEST})[partition].offset
        end = self._admin.list_offsets({partition: LATEST})[partition].offset
        return Bounds(start, end)

    def topic_configs(self, topic: Topic) -> dict[str, str]:
        """Return the configs that are set on the topic itself."""
        return self._configs(Resource(ResourceType.TOPIC, topic.name), {ConfigSource.TOPIC})

    def is_compacted(self, topic: Topic) -> bool:
        resource = Resource(ResourceType.TOPIC, topic.name)
        entries = self._admin.describe_configs([resource], names=["cleanup.policy"])[resource]
        return any("compact" in (entry.value or "") for entry in entries)

    def configs(self, nodes: Iterable[int]) -> dict[str, dict[str, dict[str, str]]]:
        """Return the dynamic configs of resources other than topics, by kind and name. Sensitive
        ones are not readable and are left out."""
        default = self._configs(Resource(ResourceType.BROKER, ""), {ConfigSource.ALL_BROKERS})
        brokers = {"": default}
        for node in nodes:
            resource = Resource(ResourceType.BROKER, str(node))
            brokers[str(node)] = self._configs(resource, {ConfigSource.BROKER})
        found = {ConfigKind.BROKER: brokers}
        for kind, resource_type, source in OTHER_RESOURCES:
            found[kind] = {
                resource.name: self._configs(resource, {source})
                for resource in self._admin.list_config_resources([resource_type])
            }
        return {
            kind.value: {name: configs for name, configs in resources.items() if configs}
            for kind, resources in found.items()
        }

    def new_producer_id(self) -> int:
        """Return a producer id that is above all ids in use."""
        return self._cluster.retry(lambda: init_producer_id(self._cluster)).producer_id

    def _configs(self, resource: Resource, sources: set[ConfigSource]) -> dict[str, str]:
        entries = self._admin.describe_configs([resource])[resource]
        return {
            entry.name: entry.value
            for entry in entries
            if entry.source in sources and entry.value is not None
        }
