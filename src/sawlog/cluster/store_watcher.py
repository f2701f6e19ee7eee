"""Reads the store and watches it, so that the view follows every change.

A watch only reports that a node changed; the node is then read again, with a new watch. Topics are
read independently of each other, so that each appears as soon as it is complete. After a lost
connection everything is read again.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE, ConfigKind, ConfigResource
from sawlog.cluster.store_view import StoreView, TopicView
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId, TopicName
from sawlog.core.ports import Timer
from sawlog.core.store import (
    Node,
    NodeStat,
    NoNode,
    Store,
    StoreError,
    WatchEvent,
)

T = TypeVar("T")
logger = EventLogger("sawlog.cluster.store_watcher")


class StoreWatcher:
    """Calls `changed` after the view has changed, from a timer of its own, and not before
    everything was read once."""

    def __init__(
        self, store: Store, timer: Timer, view: StoreView, changed: Callable[[], None]
    ) -> None:
        self._store = store
        self._timer = timer
        self._view = view
        self._changed = changed
        self._run_number = 0  # of the last start or stop; results of earlier runs are ignored
        self._failed_run = 0  # the last run with a failed read, which is logged once
        self._under_way = 0
        self._watched_brokers: set[NodeId] = set()
        self._change_is_due = False

    def start(self) -> None:
        """Read everything, also after a lost connection; pending reads are ignored."""
        self._run_number += 1
        self._under_way = 0
        self._watched_brokers = set()
        self._view.begin_loading()
        self._read_node(znodes.CLUSTER_ID, self._got_cluster_id)
        self._read_controller()
        self._list_brokers()
        for kind in ConfigKind:
            self._list_configs(kind)
        self._list_delete_requests()
        self._list_topics()

    def stop(self) -> None:
        self._run_number += 1

    # Reads and watches

    def _answered(
        self, take: Callable[[T], None], missing: Callable[[], None] | None = None
    ) -> Callable[[T | StoreError], None]:
        """Return a `done` that ignores results from before a reconnection, and count the read."""
        run_number = self._run_number
        self._under_way += 1

        def done(result: T | StoreError) -> None:
            if run_number != self._run_number:
                return
            if not isinstance(result, StoreError):
                take(result)
            elif isinstance(result, NoNode):
                if missing is not None:
                    missing()
            else:
                # The connection is lost: everything is read again after a reconnection, and the
                # other pending reads fail for the same reason.
                if self._failed_run != run_number:
                    self._failed_run = run_number
                    logger.warning("cannot read the store", reason=str(result))
                return
            self._under_way -= 1
            self._note_change()

        return done

    def _watch(self, action: Callable[[], None]) -> Callable[[WatchEvent], None]:
        run_number = self._run_number

        def watched(_: WatchEvent) -> None:
            if run_number == self._run_number:
                action()

        return watched

    def _note_change(self) -> None:
        if not self._view.is_loaded:
            if self._under_way:
                return
            self._view.finish_loading()
        if not self._change_is_due:
            self._change_is_due = True
            self._timer.after(0, self._report_change)

    def _report_change(self) -> None:
        self._change_is_due = False
        if self._view.is_loaded:
            self._changed()

    def _read_node(
        self,
        path: str,
        take: Callable[[Node], None],
        again: Callable[[], None] | None = None,
        missing: Callable[[], None] | None = None,
    ) -> None:
        watch = None if again is None else self._watch(again)
        self._store.get(path, self._answered(take, missing), watch)

    # Cluster id and controller

    def _got_cluster_id(self, node: Node) -> None:
        self._view.set_cluster_id(znodes.decode_cluster_id(node))

    def _read_controller(self) -> None:
        """Watch with `exists`, because the node may be created later."""

        def found(stat: NodeStat | None) -> None:
            if stat is None:
                self._view.set_controller(NO_NODE)
            else:
                self._read_node(znodes.CONTROLLER, got)

        def got(node: Node) -> None:
            self._view.set_controller(znodes.decode_controller(node))

        watch = self._watch(self._read_controller)
        self._store.exists(znodes.CONTROLLER, self._answered(found), watch)

    # Brokers

    def _list_brokers(self) -> None:
        watch = self._watch(self._list_brokers)
        self._store.children(znodes.BROKER_IDS, self._answered(self._got_broker_ids), watch)

    def _got_broker_ids(self, names: list[str]) -> None:
        ids = [NodeId(int(name)) for name in names]
        self._view.keep_brokers(ids)
        for node in ids:
            if node not in self._watched_brokers:
                self._read_broker(node)

    def _read_broker(self, node_id: NodeId) -> None:
        """Read a registration, again on every change: it is watched from then on, by one watch. The
        listing notices that it is gone."""
        self._watched_brokers.add(node_id)

        def got(node: Node) -> None:
            self._view.put_broker(znodes.decode_broker(node_id, node), node.stat.owner)

        again = partial(self._read_broker, node_id)
        missing = partial(self._watched_brokers.discard, node_id)
        self._read_node(znodes.broker_path(node_id), got, again, missing)

    # Configs of brokers, groups and subscriptions

    def _list_configs(self, kind: ConfigKind) -> None:
        """Read the nodes that are not known yet; the known ones have watches of their own."""

        def got(names: list[str]) -> None:
            for name in names:
                resource = znodes.config_resource(kind, name)
                if resource not in self._view.configs:
                    self._read_config_node(resource)

        watch = self._watch(partial(self._list_configs, kind))
        self._store.children(znodes.configs_path(kind), self._answered(got), watch)

    def _read_config_node(self, resource: ConfigResource) -> None:
        def got(node: Node) -> None:
            self._view.put_configs(resource, znodes.decode_config_image(node))

        again = partial(self._read_config_node, resource)
        missing = partial(self._view.remove_configs, resource)
        self._read_node(znodes.config_node_path(resource), got, again, missing)

    # Topics

    def _list_delete_requests(self) -> None:
        def got(names: list[str]) -> None:
            self._view.keep_delete_requests(names)
            for name in names:
                self._read_delete_request(TopicName(name))

        watch = self._watch(self._list_delete_requests)
        self._store.children(znodes.DELETE_TOPICS, self._answered(got), watch)

    def _read_delete_request(self, name: TopicName) -> None:
        """Read after the listing: a topic that was deleted before this request was written is then
        gone from the view too."""

        def got(node: Node) -> None:
            self._view.put_delete_request(name, znodes.decode_delete_request(node))

        again = partial(self._read_delete_request, name)
        missing = partial(self._view.remove_delete_request, name)
        self._read_node(znodes.delete_request_path(name), got, again, missing)

    def _list_topics(self) -> None:
        watch = self._watch(self._list_topics)
        self._store.children(znodes.BROKER_TOPICS, self._answered(self._got_topics), watch)

    def _got_topics(self, names: list[str]) -> None:
        view = self._view
        for gone in view.topics.keys() - set(names):
            view.remove_topic(gone)
        for name in names:
            if name not in view.topics:
                self._load_topic(TopicName(name))

    def _load_topic(self, name: TopicName) -> None:
        topic = self._view.add_topic(name)
        self._read_topic(topic)
        self._read_configs(topic)

    def _is_current(self, topic: TopicView) -> bool:
        return self._view.topics.get(topic.name) is topic

    def _read_topic(self, topic: TopicView) -> None:
        """Read a topic, again on every change; one that was deleted and recreated is reloaded."""

        def got(node: Node) -> None:
            if not self._is_current(topic):
                return
            assignment = znodes.decode_assignment(node)
            if topic.assignment.topic_id not in (b"", assignment.topic_id):
                self._reload_topic(topic)
                return
            if not topic.is_read:
                self._list_partitions(topic)
            topic.set_assignment(assignment)
            self._view.mark_changed(topic.name)

        def changed() -> None:
            if self._is_current(topic):
                self._read_topic(topic)

        self._read_node(
            znodes.topic_path(topic.name), got, changed, partial(self._topic_deleted, topic)
        )

    def _topic_deleted(self, topic: TopicView) -> None:
        if self._is_current(topic):
            self._view.remove_topic(topic.name)
            self._list_topics()  # it may have been recreated with the same name

    def _reload_topic(self, topic: TopicView) -> None:
        self._view.remove_topic(topic.name)
        self._load_topic(topic.name)

    def _read_configs(self, topic: TopicView) -> None:
        def got(node: Node) -> None:
            if self._is_current(topic) and topic.config_version != node.stat.version:
                topic.set_configs(znodes.decode_configs(node), node.stat.version)
                self._view.mark_changed(topic.name)

        def changed() -> None:
            if self._is_current(topic):
                self._read_configs(topic)

        self._read_node(znodes.config_path(topic.name), got, changed)

    def _list_partitions(self, topic: TopicView) -> None:
        """Read the state of every partition that is listed and not known yet.

        The parent node is created and deleted in one multi with its topic, so a missing parent
        means a deleted topic, which the watch on the topic's own node reports. An `exists` watch
        here would never fire and would keep the view of a deleted topic in memory.
        """

        def got(names: list[str]) -> None:
            if self._is_current(topic):
                for index in sorted(int(name) for name in names):
                    if index not in topic.states:
                        self._read_state(topic, index)

        def changed() -> None:
            if self._is_current(topic):
                self._list_partitions(topic)

        self._store.children(
            znodes.partitions_path(topic.name), self._answered(got), self._watch(changed)
        )

    def _read_state(self, topic: TopicView, index: int) -> None:
        def got(node: Node) -> None:
            if not self._is_current(topic):
                return
            state = znodes.decode_state(node)
            if index in topic.states and topic.states[index].created != state.created:
                self._reload_topic(topic)  # the topic was deleted and recreated in between
                return
            topic.set_state(index, state)
            self._view.mark_changed(topic.name)

        def changed() -> None:
            if self._is_current(topic):
                self._read_state(topic, index)

        def missing() -> None:
            if self._is_current(topic):
                topic.remove_state(index)
                self._view.mark_changed(topic.name)

        self._read_node(znodes.state_path(topic.name, index), got, changed, missing)
