"""Writes the configs of brokers, groups and client metrics subscriptions to the store.

Any broker can do this. A request is answered when this broker's image shows the change. A node
stays when its last config is removed, so that its version never goes back.
"""

from collections.abc import Callable, Mapping
from functools import partial

from sawlog.cluster import znodes
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.metadata_image import ConfigResource, MetadataImage
from sawlog.cluster.store_failures import store_failure
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.store import (
    BadVersion,
    Create,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Result,
    SetData,
    StoreError,
)

Configs = Mapping[str, str]
OnAnswered = Callable[[KafkaError | None], None]
NO_VERSION = -1


class ResourceConfigs:
    def __init__(self, member: ClusterMember) -> None:
        self._member = member

    def alter(
        self,
        resource: ConfigResource,
        change: Callable[[Configs], Configs],
        timeout_ms: int,
        done: OnAnswered,
    ) -> None:
        """Write `change(configs)`. It may raise KafkaError, and is called again with the new
        configs if another request wrote first."""
        store = self._member.store
        path = znodes.config_node_path(resource)

        def got(node: Node | StoreError) -> None:
            if isinstance(node, NoNode):
                write({}, NO_VERSION)
            elif isinstance(node, StoreError):
                done(store_failure(node))
            else:
                write(znodes.decode_configs(node), node.stat.version)

        def write(old: Configs, version: int) -> None:
            try:
                new = dict(change(old))
            except KafkaError as error:
                done(error)
                return
            if new == old:
                done(None)
                return
            data = znodes.encode_configs(new)
            operation: Operation = SetData(path, data, version)
            if version == NO_VERSION:
                operation = Create(path, data)
            store.multi([operation], partial(written, version + 1))

        def written(version: int, result: list[Result] | StoreError) -> None:
            if isinstance(result, BadVersion | NodeExists):
                store.get(path, got)
            elif isinstance(result, StoreError):
                done(store_failure(result))
            else:
                self._member.when(partial(shows, version), timeout_ms, shown)

        def shows(version: int, image: MetadataImage) -> bool:
            found = image.configs.get(resource)
            return found is not None and found.version >= version

        def shown(is_shown: bool) -> None:
            done(None if is_shown else KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        store.get(path, got)
