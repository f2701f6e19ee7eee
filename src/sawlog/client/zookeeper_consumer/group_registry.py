"""The registries of a group in ZooKeeper as one member uses them: consumers, owners and offsets.

Each write of an owner or an offset is one multi that also checks the member's own registration: it
fails in a session that did not create it. A claim rewrites the partition's offset node, and a
commit names the version of that node, so that no earlier owner can commit after a claim.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kazoo import exceptions as kazoo_errors

from sawlog.client.net.addresses import Address
from sawlog.client.zookeeper_consumer.group_nodes import (
    BROKER_IDS,
    BROKER_TOPICS,
    GroupPaths,
    MalformedNode,
    Registration,
    broker_path,
    decode_broker,
    decode_offset,
    decode_partitions,
    decode_registration,
    encode_offset,
    encode_registration,
    topic_path,
)
from sawlog.client.zookeeper_consumer.range_rebalance import GroupView, subscribed_threads
from sawlog.client.zookeeper_consumer.session import Send, ZooKeeperSession
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition

_ANY_VERSION = -1
_OWNER_VERSION = 0  # owner nodes are created and deleted, never changed
_NO_NODE = kazoo_errors.NoNodeError
_ROLLED_BACK = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)

_logger = EventLogger("sawlog.client.zookeeper_consumer")


class OffsetNode(NamedTuple):
    """A partition's committed offset, and the version of its node; None without one."""

    offset: int | None = None
    version: int | None = None


class GroupRegistry:
    def __init__(self, session: ZooKeeperSession, group: str, consumer_id: str) -> None:
        self._session = session
        self._paths = GroupPaths(group)
        self._consumer_id = consumer_id
        self._own_path = self._paths.consumer(consumer_id)
        self._existing: set[str] = set()  # persistent nodes that are known to exist

    # Consumers

    def register(self, registration: Registration, timestamp_ms: int) -> bool:
        """Create the member's node; False if a member with the same id exists."""
        self._create_parents([self._own_path])
        data = encode_registration(registration, timestamp_ms)
        acl = self._session.acl
        created = self._session.call(
            lambda client: client.create_async(self._own_path, data, acl=acl, ephemeral=True)
        )
        if not isinstance(created, Exception):
            return True
        if not isinstance(created, kazoo_errors.NodeExistsError):
            raise created
        found = self._session.call(self._get(self._own_path))
        if isinstance(found, Exception):
            self._session.note_change()  # it was deleted just now
            return False
        # A request whose answer was lost may have created it.
        return bool(found[1].ephemeralOwner == self._session.session_id and found[0] == data)

    def change_registration(self, registration: Registration, timestamp_ms: int) -> bool:
        """Replace the member's node: the others watch the names of members, not their content."""

        def send(client: Any) -> Any:
            transaction = client.transaction()
            transaction.delete(self._own_path)
            data = encode_registration(registration, timestamp_ms)
            transaction.create(self._own_path, data, acl=self._session.acl, ephemeral=True)
            return transaction.commit_async()

        return _failure(self._session.call(send)) is None

    def deregister(self) -> None:
        self._session.call(lambda client: client.delete_async(self._own_path))

    def brokers(self) -> list[Address]:
        """Return the addresses of the registered brokers, and watch them."""
        ids = self._children([BROKER_IDS])[0]
        found = self._session.call_all([self._get(broker_path(each), watch=False) for each in ids])
        addresses = []
        for node, answer in zip(ids, found, strict=True):
            if not isinstance(answer, Exception):
                try:
                    address = decode_broker(broker_path(node), answer[0])
                except MalformedNode as error:
                    _logger.warning("a broker is ignored", reason=str(error))
                    continue
                if address is not None:
                    addresses.append(address)
        return addresses

    def read_view(self) -> GroupView:
        """Read and watch the members and the topics that they read."""
        consumers, topics = self._children([self._paths.ids, BROKER_TOPICS])
        registrations = self._registrations(consumers)
        wanted = sorted(
            {
                topic
                for registration in registrations.values()
                for topic in subscribed_threads(registration, topics)
            }
        )
        found = self._session.call_all([self._get(topic_path(topic)) for topic in wanted])
        partitions: dict[str, tuple[int, ...]] = {}
        for topic, answer in zip(wanted, found, strict=True):
            if not isinstance(answer, Exception):
                partitions[topic] = decode_partitions(topic_path(topic), answer[0])
        return GroupView(registrations, partitions)

    def _registrations(self, consumers: list[str]) -> dict[str, Registration]:
        paths = [self._paths.consumer(each) for each in consumers]
        found = self._session.call_all([self._get(path) for path in paths])
        registrations = {}
        for consumer, path, answer in zip(consumers, paths, found, strict=True):
            if isinstance(answer, Exception):
                continue  # gone; the watch on the parent fires
            try:
                registrations[consumer] = decode_registration(path, answer[0])
            except MalformedNode as error:
                _logger.warning("a member of the group is ignored", reason=str(error))
        return registrations

    # Owners

    def still_owned(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those whose owner node belongs to this session, and watch all."""
        asked = sorted(partitions)
        found = self._session.call_all([self._get(self._paths.owner(each)) for each in asked])
        return frozenset(
            each for each, answer in zip(asked, found, strict=True) if self._is_own(answer)
        )

    def claim(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, OffsetNode]:
        """Create owner nodes; return those created, with the committed offsets.

        The other partitions have an owner; its node is watched.
        """
        asked = sorted(wanted)
        self._create_parents(
            [path for each in asked for path in (self._paths.owner(each), self._paths.offset(each))]
        )
        offsets = self.offsets(asked)
        answers = self._session.call_all(
            [self._claim(each, wanted[each], offsets[each]) for each in asked]
        )
        claimed: dict[TopicPartition, OffsetNode] = {}
        for partition, answer in zip(asked, answers, strict=True):
            offset, version = offsets[partition]
            if _failure(answer) is None:
                claimed[partition] = OffsetNode(offset, None if version is None else version + 1)
        refused = [each for each in asked if each not in claimed]
        claimed.update(self.offsets(self._watch_owners(refused)))
        return claimed

    def _claim(self, partition: TopicPartition, thread_id: str, offset: OffsetNode) -> Send:
        def send(client: Any) -> Any:
            transaction = client.transaction()
            transaction.check(self._own_path, _ANY_VERSION)
            path = self._paths.owner(partition)
            transaction.create(path, thread_id.encode(), acl=self._session.acl, ephemeral=True)
            if offset.offset is not None:
                data = encode_offset(offset.offset)
                transaction.set_data(self._paths.offset(partition), data, offset.version)
            return transaction.commit_async()

        return send

    def _watch_owners(self, partitions: list[TopicPartition]) -> frozenset[TopicPartition]:
        """Watch owner nodes that could not be created.

        Returns those that are this session's: a claim whose answer was lost has created them.
        """
        paths = [self._paths.owner(each) for each in partitions]
        found = self._session.call_all([self._get(path) for path in paths])
        if any(isinstance(answer, _NO_NODE) for answer in found):
            self._session.note_change()  # released meanwhile
        return frozenset(
            each for each, answer in zip(partitions, found, strict=True) if self._is_own(answer)
        )

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        self._session.call_all([self._release(each) for each in sorted(partitions)])

    def _release(self, partition: TopicPartition) -> Send:
        def send(client: Any) -> Any:
            transaction = client.transaction()
            transaction.check(self._own_path, _ANY_VERSION)
            transaction.delete(self._paths.owner(partition))
            return transaction.commit_async()

        return send

    def _is_own(self, answer: Any) -> bool:
        return (
            not isinstance(answer, Exception)
            and answer[1].ephemeralOwner == self._session.session_id
        )

    # Offsets

    def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetNode]:
        asked = sorted(partitions)
        paths = [self._paths.offset(each) for each in asked]
        found = self._session.call_all([self._get(path, watch=False) for path in paths])
        return {
            partition: OffsetNode()
            if isinstance(answer, Exception)
            else OffsetNode(decode_offset(path, answer[0]), answer[1].version)
            for partition, path, answer in zip(asked, paths, found, strict=True)
        }

    def commit(
        self, offsets: Mapping[TopicPartition, int], versions: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int]:
        """Write offsets; return the new versions of the nodes that were written.

        The others are not this member's any more, or another client has changed their offset.
        """
        asked = sorted(offsets)
        answers = self._session.call_all(
            [self._commit(each, offsets[each], versions[each]) for each in asked]
        )
        written: dict[TopicPartition, int] = {}
        for partition, answer in zip(asked, answers, strict=True):
            if _failure(answer) is None:
                version = versions[partition]
                written[partition] = 0 if version is None else version + 1
        return written

    def _commit(self, partition: TopicPartition, offset: int, version: int | None) -> Send:
        def send(client: Any) -> Any:
            transaction = client.transaction()
            transaction.check(self._own_path, _ANY_VERSION)
            transaction.check(self._paths.owner(partition), _OWNER_VERSION)
            path, data = self._paths.offset(partition), encode_offset(offset)
            if version is None:
                transaction.create(path, data, acl=self._session.acl)
            else:
                transaction.set_data(path, data, version)
            return transaction.commit_async()

        return send

    # Nodes

    def _get(self, path: str, *, watch: bool = True) -> Send:
        watcher = self._session.watch if watch else None
        return lambda client: client.get_async(path, watch=watcher)

    def _children(self, paths: list[str]) -> list[list[str]]:
        """Return the sorted children of each node, and watch them."""

        def ask(path: str) -> Send:
            return lambda client: client.get_children_async(path, watch=self._session.watch)

        answers = self._session.call_all([ask(path) for path in paths])
        return [[] if isinstance(answer, _NO_NODE) else sorted(answer) for answer in answers]

    def _create_parents(self, paths: Iterable[str]) -> None:
        """Create the missing ancestors of nodes, the upper ones first."""
        missing: set[str] = set()
        for path in paths:
            names = path.split("/")
            missing.update("/".join(names[:count]) for count in range(2, len(names)))
        missing -= self._existing
        by_depth: dict[int, list[str]] = {}
        for path in sorted(missing):
            by_depth.setdefault(path.count("/"), []).append(path)
        for _, level in sorted(by_depth.items()):
            answers = self._session.call_all([self._create(path) for path in level])
            for path, answer in zip(level, answers, strict=True):
                is_new = not isinstance(answer, Exception)
                if not is_new and not isinstance(answer, kazoo_errors.NodeExistsError):
                    raise answer
                self._existing.add(path)

    def _create(self, path: str) -> Send:
        return lambda client: client.create_async(path, acl=self._session.acl)


def _failure(answers: Any) -> Exception | None:
    """Return the error of a multi, or None if it was done."""
    if isinstance(answers, Exception):
        return answers
    failed = [each for each in answers if isinstance(each, Exception)]
    reasons = [each for each in failed if not isinstance(each, _ROLLED_BACK)]
    return next(iter(reasons or failed), None)
