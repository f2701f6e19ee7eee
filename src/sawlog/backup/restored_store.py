"""The coordination store of a restored broker: topics with their ids, configs and partition states.

Numbers that clients remember must not go back, although the lost broker went on after the backup.
So leader epochs and producer ids continue far above those of the backup: a client that saw leader
epoch 7 ignores metadata with epoch 6, and a producer id must never have two owners.
"""

from sawlog.backup.manifest import Manifest, PartitionBackup, TopicBackup
from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import ConfigKind, ConfigResource, InSyncMember
from sawlog.cluster.producer_ids import encode_block
from sawlog.cluster.store_tree import StoreTree
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.core.store import Create, Operation

EPOCH_STEP = 1_000
"""More elections than the lost broker can have had after the backup: one for each of its starts."""
PRODUCER_ID_STEP = 1 << 32
"""More producer ids than the lost broker can have assigned after the backup."""
_NO_BROKER_EPOCH = 0  # of no registration, so that the first start elects every leader again


def restored_tree(manifest: Manifest, node_id: int) -> StoreTree:
    """Build the store's tree, with all partitions on the broker `node_id`."""
    node = NodeId(node_id)
    operations: list[Operation] = [Create(path, data) for path, data in znodes.PERSISTENT_PATHS]
    operations.append(Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(manifest.cluster_id)))
    first_id = manifest.last_producer_id + PRODUCER_ID_STEP
    operations.append(Create(znodes.PRODUCER_ID_BLOCK, encode_block(node, first_id)))
    operations += _config_nodes(manifest, node_id)
    for topic in manifest.topics:
        operations += _topic_nodes(topic, node)
    tree = StoreTree()
    tree.apply(operations, owner=0)
    return tree


def _config_nodes(manifest: Manifest, node_id: int) -> list[Operation]:
    """The configs of brokers and groups; those of the lost broker apply to its successor."""
    operations: list[Operation] = []
    for kind, resources in sorted(manifest.configs.items()):
        for name, configs in sorted(resources.items()):
            resource = ConfigResource(ConfigKind(kind), name)
            if resource == ConfigResource(ConfigKind.BROKER, str(manifest.node_id)):
                resource = resource._replace(name=str(node_id))
            path = znodes.config_node_path(resource)
            operations.append(Create(path, znodes.encode_configs(configs)))
    return operations


def _topic_nodes(topic: TopicBackup, node: NodeId) -> list[Operation]:
    replicas = [(node,)] * len(topic.partitions)
    operations: list[Operation] = [
        Create(znodes.config_path(topic.name), znodes.encode_configs(topic.configs)),
        Create(znodes.topic_path(topic.name), znodes.encode_assignment(topic.id, replicas)),
        Create(znodes.partitions_path(topic.name)),
    ]
    for partition in topic.partitions:
        state = znodes.encode_state(_state(partition, node))
        operations.append(Create(znodes.partition_path(topic.name, partition.index)))
        operations.append(Create(znodes.state_path(topic.name, partition.index), state))
    return operations


def _state(partition: PartitionBackup, node: NodeId) -> znodes.PartitionState:
    epoch = LeaderEpoch(partition.leader_epoch + EPOCH_STEP)
    member = InSyncMember(node, _NO_BROKER_EPOCH, directory_id="")
    return znodes.PartitionState(node, epoch, (member,), controller_epoch=0)
