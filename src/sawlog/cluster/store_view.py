"""A broker's copy of the store's nodes: the source of the metadata image and of the controller.

The copy may lag behind the store. Every value carries the version at which it was read, and a write
names that version, so a write based on stale data fails. `StoreView.image` builds the immutable
image that the rest of the broker reads.
"""

from collections.abc import Collection, Iterable, Mapping

from sawlog.cluster.internal_topics import INTERNAL_TOPICS
from sawlog.cluster.metadata_image import (
    EMPTY_IMAGE,
    NO_NODE,
    BrokerImage,
    ConfigImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    TopicImage,
    mutable_copy,
)
from sawlog.cluster.znodes import Assignment, DeleteRequest, PartitionState
from sawlog.core.ids import NodeId, TopicId, TopicName


class TopicView:
    """The nodes of one topic that were read so far. `states` lacks partitions without a state. A
    topic `is_vanishing` when a state was deleted: its deletion is under way."""

    __slots__ = ("assignment", "config_version", "configs", "is_vanishing", "name", "states")

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.assignment = Assignment(TopicId(b""), ())
        self.configs: Mapping[str, str] = {}
        self.config_version = -1  # not read yet
        self.states: dict[int, PartitionState] = {}
        self.is_vanishing = False

    @property
    def is_read(self) -> bool:
        return bool(self.assignment.topic_id)

    def set_assignment(self, assignment: Assignment) -> None:
        self.assignment = assignment

    def set_configs(self, configs: Mapping[str, str], version: int) -> None:
        self.configs = configs
        self.config_version = version

    def set_state(self, index: int, state: PartitionState) -> None:
        self.states[index] = state

    def remove_state(self, index: int) -> None:
        if self.states.pop(index, None) is not None:
            self.is_vanishing = True


class StoreView:
    """`changed` names the topics whose images must be rebuilt, `unsettled` those that the
    controller must examine. The store watcher writes the view; all others read it."""

    def __init__(self) -> None:
        self.is_loaded = False  # every node was read once since the last (re)connection
        self.cluster_id = ""
        self.controller_id = NO_NODE
        self.brokers: dict[NodeId, BrokerImage] = {}
        self.sessions: dict[NodeId, int] = {}  # the session that owns each registration
        self.topics: dict[TopicName, TopicView] = {}
        self.delete_requests: dict[TopicName, DeleteRequest] = {}
        self.configs: dict[ConfigResource, ConfigImage] = {}
        self._configs_changed = False
        self.changed: set[TopicName] = set()
        self.unsettled: set[TopicName] = set()

    def begin_loading(self) -> None:
        """Clear the view before all nodes are read again; no image is built until then."""
        self.is_loaded = False
        self.changed.update(self.topics)
        self.topics = {}
        self.brokers = {}
        self.delete_requests = {}
        self.configs = {}
        self._configs_changed = True

    def finish_loading(self) -> None:
        self.is_loaded = True

    def set_cluster_id(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    def set_controller(self, node: NodeId) -> None:
        self.controller_id = node

    # Brokers

    def put_broker(self, broker: BrokerImage, session: int) -> None:
        self.sessions[broker.id] = session
        if self.brokers.get(broker.id) != broker:
            self.brokers[broker.id] = broker
            self.mark_all_changed()

    def keep_brokers(self, ids: Collection[NodeId]) -> None:
        """Remove all brokers but these."""
        for gone in self.brokers.keys() - set(ids):
            del self.brokers[gone]
            self.mark_all_changed()

    def is_leading(self, state: PartitionState) -> bool:
        """Tell whether the elected leader is registered, with the epoch under which it was elected:
        a leader that restarted since then must be elected again."""
        broker = self.brokers.get(state.leader)
        member = state.member(state.leader)
        return broker is not None and member is not None and member.is_of(broker)

    # Delete requests

    def put_delete_request(self, name: TopicName, request: DeleteRequest) -> None:
        self.delete_requests[name] = request

    def remove_delete_request(self, name: TopicName) -> None:
        self.delete_requests.pop(name, None)

    def keep_delete_requests(self, names: Collection[str]) -> None:
        """Remove all delete requests but these."""
        for gone in self.delete_requests.keys() - set(names):
            del self.delete_requests[gone]

    # Configs of brokers, groups and subscriptions

    def put_configs(self, resource: ConfigResource, configs: ConfigImage) -> None:
        self.configs[resource] = configs
        self._configs_changed = True

    def remove_configs(self, resource: ConfigResource) -> None:
        if self.configs.pop(resource, None) is not None:
            self._configs_changed = True

    # Topics

    def add_topic(self, name: TopicName) -> TopicView:
        topic = self.topics[name] = TopicView(name)
        return topic

    def remove_topic(self, name: TopicName) -> None:
        if self.topics.pop(name, None) is not None:
            self.mark_changed(name)

    def mark_changed(self, name: TopicName) -> None:
        """A node of this topic changed: rebuild its image, and let the controller examine it."""
        self.changed.add(name)
        self.unsettled.add(name)

    def mark_all_changed(self) -> None:
        """Brokers or the controller changed, so any partition may need a leader."""
        self.changed.update(self.topics)
        self.unsettled.update(self.topics)

    def settle(self, names: Iterable[TopicName]) -> None:
        """The controller has nothing left to do for these topics until they change again."""
        self.unsettled.difference_update(names)

    # The image

    def image(self, old: MetadataImage) -> MetadataImage:
        """Return the next image; unchanged parts are the same objects as in the old one."""
        topics, names = old.topics, old.names
        if self.changed:
            topics, names = self._next_topics(old)
            self.changed.clear()
        brokers = old.brokers if old.brokers == self.brokers else dict(self.brokers)
        configs = old.configs
        if self._configs_changed:
            configs = configs if configs == self.configs else dict(self.configs)
            self._configs_changed = False
        new = MetadataImage(
            self.cluster_id, self.controller_id, brokers, topics, names, configs, old.version + 1
        )
        return old if new == old else new

    def _next_topics(
        self, old: MetadataImage
    ) -> tuple[Mapping[TopicName, TopicImage], Mapping[TopicId, TopicName]]:
        topics = mutable_copy(old.topics)
        names = mutable_copy(old.names)
        is_changed = False
        for name in sorted(self.changed):
            before = topics.get(name)
            after = self._topic_image(name, before, old is EMPTY_IMAGE)
            if after is before:
                continue
            is_changed = True
            if before is not None and (after is None or after.id != before.id):
                del topics[name]
                del names[before.id]
            if after is not None:
                topics[name] = after
                names[after.id] = name
        return (topics, names) if is_changed else (old.topics, old.names)

    def _topic_image(
        self, name: TopicName, before: TopicImage | None, is_first: bool
    ) -> TopicImage | None:
        view = self.topics.get(name)
        if view is None or not view.is_read:
            return None
        if view.is_vanishing:  # shown as it was until the topic's own node is gone
            is_shown = before is not None and before.id == view.assignment.topic_id
            return before if is_shown else None
        count = self._visible_partitions(view, before, is_first)
        if count == 0:
            return None
        partitions = tuple(self._partition_image(view, index) for index in range(count))
        after = TopicImage(
            name, view.assignment.topic_id, partitions, view.configs, view.config_version
        )
        return before if before == after else after

    def _visible_partitions(
        self, view: TopicView, before: TopicImage | None, is_first: bool
    ) -> int:
        """Return how many partitions the image has: all once all have states, until then as many as
        the image before.

        The first image after a start has those up to the first one without a state: so the existing
        logs of a topic that could not grow on a full disk stay assigned. An internal topic never
        grows; an incomplete one was never in an image.
        """
        wanted, states = len(view.assignment.replicas), view.states
        with_state = next((index for index in range(wanted) if index not in states), wanted)
        if with_state == wanted or (is_first and view.name not in INTERNAL_TOPICS):
            return with_state
        if before is None or before.id != view.assignment.topic_id:
            return 0
        shown = len(before.partitions)
        return shown if shown <= with_state else 0

    def _partition_image(self, view: TopicView, index: int) -> PartitionImage:
        state, assignment = view.states[index], view.assignment
        return PartitionImage(
            state.leader if self.is_leading(state) else NO_NODE,
            state.leader_epoch,
            assignment.replicas[index],
            state.isr,
            state.version,
            state.members,
            *assignment.reassignment(index),
            state.unclean_epoch,
        )
