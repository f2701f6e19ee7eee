"""What one broker has read of the store: the raw form behind the image, and the controller's input.

It may be behind the store, never beside it: every value has the version at which it was read, and
whoever writes names that version. `image` makes the immutable picture for everyone else.
"""

from collections.abc import Mapping

from sawlog.cluster.internal_topics import INTERNAL_TOPICS
from sawlog.cluster.metadata_image import (
    EMPTY_IMAGE,
    NO_NODE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from sawlog.cluster.znodes import Assignment, DeleteRequest, PartitionState
from sawlog.core.ids import NodeId, TopicId, TopicName


class TopicView:
    """One topic as far as it is read. `states` may lack partitions that have none yet."""

    __slots__ = ("assignment", "config_version", "configs", "name", "states")

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.assignment = Assignment(TopicId(b""), ())
        self.configs: Mapping[str, str] = {}
        self.config_version = -1  # not read yet
        self.states: dict[int, PartitionState] = {}

    @property
    def is_read(self) -> bool:
        return bool(self.assignment.topic_id)


class View:
    """Mutable. `changed` names the topics whose images are to be made anew, `unsettled` those that
    the controller has to look at."""

    def __init__(self) -> None:
        self.is_loaded = False  # everything was read once since the connection was made
        self.cluster_id = ""
        self.controller_id = NO_NODE
        self.brokers: dict[NodeId, BrokerImage] = {}
        self.sessions: dict[NodeId, int] = {}  # under which each broker is registered
        self.topics: dict[TopicName, TopicView] = {}
        self.deletions: dict[TopicName, DeleteRequest] = {}
        self.changed: set[TopicName] = set()
        self.unsettled: set[TopicName] = set()

    def touch(self, name: TopicName) -> None:
        """Something of this topic is new."""
        self.changed.add(name)
        self.unsettled.add(name)

    def forget(self) -> None:
        """Everything is about to be read again; nothing of it shows before that is done."""
        self.is_loaded = False
        self.changed.update(self.topics)
        self.topics = {}
        self.brokers = {}
        self.deletions = {}

    def is_leading(self, state: PartitionState) -> bool:
        """Is the elected leader alive, as the very process that was elected?"""
        broker = self.brokers.get(state.leader)
        return broker is not None and broker.epoch == state.broker_epoch

    def brokers_changed(self) -> None:
        """Leaders may have come or gone anywhere."""
        self.changed.update(self.topics)
        self.unsettled.update(self.topics)

    def image(self, old: MetadataImage) -> MetadataImage:
        """The next image; parts that did not change are the same objects as in the old one."""
        topics, names = old.topics, old.names
        if self.changed:
            topics, names = self._next_topics(old)
            self.changed.clear()
        brokers = old.brokers if old.brokers == self.brokers else dict(self.brokers)
        new = MetadataImage(self.cluster_id, self.controller_id, brokers, topics, names)
        return old if new == old else new

    def _next_topics(
        self, old: MetadataImage
    ) -> tuple[Mapping[TopicName, TopicImage], Mapping[TopicId, TopicName]]:
        topics = dict(old.topics)
        names = dict(old.names)
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
        count = self._shown_partitions(view, before, is_first)
        if count == 0:
            return None
        partitions = tuple(
            self._partition_image(view.states[index], nodes)
            for index, nodes in enumerate(view.assignment.replicas[:count])
        )
        after = TopicImage(
            name, view.assignment.topic_id, partitions, view.configs, view.config_version
        )
        return before if before == after else after

    def _shown_partitions(self, view: TopicView, before: TopicImage | None, is_first: bool) -> int:
        """How many partitions show: all once all have states, until then those that did before.

        The first image cannot know which did. It shows those up to the first one without a state,
        so that the logs of a topic that had no room to grow have their place. An internal topic
        does not grow: if it is incomplete, none of its partitions ever showed.
        """
        wanted, states = len(view.assignment.replicas), view.states
        stated = next((index for index in range(wanted) if index not in states), wanted)
        if stated == wanted or (is_first and view.name not in INTERNAL_TOPICS):
            return stated
        if before is None or before.id != view.assignment.topic_id:
            return 0
        shown = len(before.partitions)
        return shown if shown <= stated else 0

    def _partition_image(
        self, state: PartitionState, replicas: tuple[NodeId, ...]
    ) -> PartitionImage:
        leader = state.leader if self.is_leading(state) else NO_NODE
        return PartitionImage(leader, state.leader_epoch, replicas, state.isr, state.version)
