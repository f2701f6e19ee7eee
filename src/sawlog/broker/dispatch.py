"""The handler of each served API. A handler module is imported with the first request for it.

A broker without groups thus carries none of their code. Each loader names the message types of its
API, and mypy checks that the handler takes them and needs no more context than `Components` has.
"""

from typing import TYPE_CHECKING

from sawlog.broker.request import Api
from sawlog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.request import AnyHandler, Handler
    from sawlog.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from sawlog.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
    from sawlog.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from sawlog.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
    from sawlog.protocol.messages.alter_configs_request import AlterConfigsRequest
    from sawlog.protocol.messages.alter_configs_response import AlterConfigsResponse
    from sawlog.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
    )
    from sawlog.protocol.messages.alter_partition_reassignments_response import (
        AlterPartitionReassignmentsResponse,
    )
    from sawlog.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
    from sawlog.protocol.messages.alter_replica_log_dirs_response import (
        AlterReplicaLogDirsResponse,
    )
    from sawlog.protocol.messages.api_versions_request import ApiVersionsRequest
    from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse
    from sawlog.protocol.messages.consumer_group_describe_request import (
        ConsumerGroupDescribeRequest,
    )
    from sawlog.protocol.messages.consumer_group_describe_response import (
        ConsumerGroupDescribeResponse,
    )
    from sawlog.protocol.messages.consumer_group_heartbeat_request import (
        ConsumerGroupHeartbeatRequest,
    )
    from sawlog.protocol.messages.consumer_group_heartbeat_response import (
        ConsumerGroupHeartbeatResponse,
    )
    from sawlog.protocol.messages.create_acls_request import CreateAclsRequest
    from sawlog.protocol.messages.create_acls_response import CreateAclsResponse
    from sawlog.protocol.messages.create_partitions_request import CreatePartitionsRequest
    from sawlog.protocol.messages.create_partitions_response import CreatePartitionsResponse
    from sawlog.protocol.messages.create_topics_request import CreateTopicsRequest
    from sawlog.protocol.messages.create_topics_response import CreateTopicsResponse
    from sawlog.protocol.messages.delete_acls_request import DeleteAclsRequest
    from sawlog.protocol.messages.delete_acls_response import DeleteAclsResponse
    from sawlog.protocol.messages.delete_groups_request import DeleteGroupsRequest
    from sawlog.protocol.messages.delete_groups_response import DeleteGroupsResponse
    from sawlog.protocol.messages.delete_records_request import DeleteRecordsRequest
    from sawlog.protocol.messages.delete_records_response import DeleteRecordsResponse
    from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest
    from sawlog.protocol.messages.delete_topics_response import DeleteTopicsResponse
    from sawlog.protocol.messages.describe_acls_request import DescribeAclsRequest
    from sawlog.protocol.messages.describe_acls_response import DescribeAclsResponse
    from sawlog.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
    from sawlog.protocol.messages.describe_client_quotas_response import (
        DescribeClientQuotasResponse,
    )
    from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
    from sawlog.protocol.messages.describe_cluster_response import DescribeClusterResponse
    from sawlog.protocol.messages.describe_configs_request import DescribeConfigsRequest
    from sawlog.protocol.messages.describe_configs_response import DescribeConfigsResponse
    from sawlog.protocol.messages.describe_groups_request import DescribeGroupsRequest
    from sawlog.protocol.messages.describe_groups_response import DescribeGroupsResponse
    from sawlog.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
    from sawlog.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
    from sawlog.protocol.messages.describe_producers_request import DescribeProducersRequest
    from sawlog.protocol.messages.describe_producers_response import DescribeProducersResponse
    from sawlog.protocol.messages.describe_topic_partitions_request import (
        DescribeTopicPartitionsRequest,
    )
    from sawlog.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponse,
    )
    from sawlog.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
    from sawlog.protocol.messages.describe_transactions_response import (
        DescribeTransactionsResponse,
    )
    from sawlog.protocol.messages.describe_user_scram_credentials_request import (
        DescribeUserScramCredentialsRequest,
    )
    from sawlog.protocol.messages.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse,
    )
    from sawlog.protocol.messages.elect_leaders_request import ElectLeadersRequest
    from sawlog.protocol.messages.elect_leaders_response import ElectLeadersResponse
    from sawlog.protocol.messages.end_txn_request import EndTxnRequest
    from sawlog.protocol.messages.end_txn_response import EndTxnResponse
    from sawlog.protocol.messages.fetch_request import FetchRequest
    from sawlog.protocol.messages.fetch_response import FetchResponse
    from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
    from sawlog.protocol.messages.find_coordinator_response import FindCoordinatorResponse
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
    from sawlog.protocol.messages.incremental_alter_configs_request import (
        IncrementalAlterConfigsRequest,
    )
    from sawlog.protocol.messages.incremental_alter_configs_response import (
        IncrementalAlterConfigsResponse,
    )
    from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
    from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.join_group_response import JoinGroupResponse
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
    from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse
    from sawlog.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
    from sawlog.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
    from sawlog.protocol.messages.list_groups_request import ListGroupsRequest
    from sawlog.protocol.messages.list_groups_response import ListGroupsResponse
    from sawlog.protocol.messages.list_offsets_request import ListOffsetsRequest
    from sawlog.protocol.messages.list_offsets_response import ListOffsetsResponse
    from sawlog.protocol.messages.list_partition_reassignments_request import (
        ListPartitionReassignmentsRequest,
    )
    from sawlog.protocol.messages.list_partition_reassignments_response import (
        ListPartitionReassignmentsResponse,
    )
    from sawlog.protocol.messages.list_transactions_request import ListTransactionsRequest
    from sawlog.protocol.messages.list_transactions_response import ListTransactionsResponse
    from sawlog.protocol.messages.metadata_request import MetadataRequest
    from sawlog.protocol.messages.metadata_response import MetadataResponse
    from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
    from sawlog.protocol.messages.offset_commit_response import OffsetCommitResponse
    from sawlog.protocol.messages.offset_delete_request import OffsetDeleteRequest
    from sawlog.protocol.messages.offset_delete_response import OffsetDeleteResponse
    from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequest
    from sawlog.protocol.messages.offset_fetch_response import OffsetFetchResponse
    from sawlog.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
    from sawlog.protocol.messages.offset_for_leader_epoch_response import (
        OffsetForLeaderEpochResponse,
    )
    from sawlog.protocol.messages.produce_request import ProduceRequest
    from sawlog.protocol.messages.produce_response import ProduceResponse
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest
    from sawlog.protocol.messages.sync_group_response import SyncGroupResponse
    from sawlog.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
    from sawlog.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
    from sawlog.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
    from sawlog.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse


def _produce() -> "Handler[ProduceRequest, ProduceResponse]":
    from sawlog.broker.api.produce import produce

    return produce


def _fetch() -> "Handler[FetchRequest, FetchResponse]":
    from sawlog.broker.api.fetch import fetch

    return fetch


def _list_offsets() -> "Handler[ListOffsetsRequest, ListOffsetsResponse]":
    from sawlog.broker.api.list_offsets import list_offsets

    return list_offsets


def _offset_for_leader_epoch() -> (
    "Handler[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]"
):
    from sawlog.broker.api.list_offsets import offset_for_leader_epoch

    return offset_for_leader_epoch


def _delete_records() -> "Handler[DeleteRecordsRequest, DeleteRecordsResponse]":
    from sawlog.broker.api.delete_records import delete_records

    return delete_records


def _describe_producers() -> "Handler[DescribeProducersRequest, DescribeProducersResponse]":
    from sawlog.broker.api.describe_producers import describe_producers

    return describe_producers


def _init_producer_id() -> "Handler[InitProducerIdRequest, InitProducerIdResponse]":
    from sawlog.broker.api.init_producer_id import init_producer_id

    return init_producer_id


def _metadata() -> "Handler[MetadataRequest, MetadataResponse]":
    from sawlog.broker.api.metadata import metadata

    return metadata


def _describe_topic_partitions() -> (
    "Handler[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse]"
):
    from sawlog.broker.api.metadata import describe_topic_partitions

    return describe_topic_partitions


def _describe_cluster() -> "Handler[DescribeClusterRequest, DescribeClusterResponse]":
    from sawlog.broker.api.metadata import describe_cluster

    return describe_cluster


def _api_versions() -> "Handler[ApiVersionsRequest, ApiVersionsResponse]":
    from sawlog.broker.api.api_versions import api_versions

    return api_versions


def _txn_offset_commit() -> "Handler[TxnOffsetCommitRequest, TxnOffsetCommitResponse]":
    from sawlog.broker.api.txn_offset_commit import txn_offset_commit

    return txn_offset_commit


def _find_coordinator() -> "Handler[FindCoordinatorRequest, FindCoordinatorResponse]":
    from sawlog.broker.api.find_coordinator import find_coordinator

    return find_coordinator


def _offset_commit() -> "Handler[OffsetCommitRequest, OffsetCommitResponse]":
    from sawlog.broker.api.group_offsets import offset_commit

    return offset_commit


def _offset_fetch() -> "Handler[OffsetFetchRequest, OffsetFetchResponse]":
    from sawlog.broker.api.group_offsets import offset_fetch

    return offset_fetch


def _offset_delete() -> "Handler[OffsetDeleteRequest, OffsetDeleteResponse]":
    from sawlog.broker.api.group_offsets import offset_delete

    return offset_delete


def _join_group() -> "Handler[JoinGroupRequest, JoinGroupResponse]":
    from sawlog.broker.api.group_membership import join_group

    return join_group


def _sync_group() -> "Handler[SyncGroupRequest, SyncGroupResponse]":
    from sawlog.broker.api.group_membership import sync_group

    return sync_group


def _heartbeat() -> "Handler[HeartbeatRequest, HeartbeatResponse]":
    from sawlog.broker.api.group_membership import heartbeat

    return heartbeat


def _leave_group() -> "Handler[LeaveGroupRequest, LeaveGroupResponse]":
    from sawlog.broker.api.group_membership import leave_group

    return leave_group


def _consumer_group_heartbeat() -> (
    "Handler[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]"
):
    from sawlog.broker.api.consumer_groups import consumer_group_heartbeat

    return consumer_group_heartbeat


def _consumer_group_describe() -> (
    "Handler[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse]"
):
    from sawlog.broker.api.consumer_groups import consumer_group_describe

    return consumer_group_describe


def _list_groups() -> "Handler[ListGroupsRequest, ListGroupsResponse]":
    from sawlog.broker.api.group_admin import list_groups

    return list_groups


def _describe_groups() -> "Handler[DescribeGroupsRequest, DescribeGroupsResponse]":
    from sawlog.broker.api.group_admin import describe_groups

    return describe_groups


def _delete_groups() -> "Handler[DeleteGroupsRequest, DeleteGroupsResponse]":
    from sawlog.broker.api.group_admin import delete_groups

    return delete_groups


def _create_topics() -> "Handler[CreateTopicsRequest, CreateTopicsResponse]":
    from sawlog.broker.api.topics import create_topics

    return create_topics


def _delete_topics() -> "Handler[DeleteTopicsRequest, DeleteTopicsResponse]":
    from sawlog.broker.api.topics import delete_topics

    return delete_topics


def _create_partitions() -> "Handler[CreatePartitionsRequest, CreatePartitionsResponse]":
    from sawlog.broker.api.topics import create_partitions

    return create_partitions


def _describe_configs() -> "Handler[DescribeConfigsRequest, DescribeConfigsResponse]":
    from sawlog.broker.api.configs import describe_configs

    return describe_configs


def _alter_configs() -> "Handler[AlterConfigsRequest, AlterConfigsResponse]":
    from sawlog.broker.api.configs import alter_configs

    return alter_configs


def _incremental_alter_configs() -> (
    "Handler[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]"
):
    from sawlog.broker.api.configs import incremental_alter_configs

    return incremental_alter_configs


def _list_config_resources() -> "Handler[ListConfigResourcesRequest, ListConfigResourcesResponse]":
    from sawlog.broker.api.configs import list_config_resources

    return list_config_resources


def _describe_acls() -> "Handler[DescribeAclsRequest, DescribeAclsResponse]":
    from sawlog.broker.api.acls import describe_acls

    return describe_acls


def _create_acls() -> "Handler[CreateAclsRequest, CreateAclsResponse]":
    from sawlog.broker.api.acls import create_acls

    return create_acls


def _delete_acls() -> "Handler[DeleteAclsRequest, DeleteAclsResponse]":
    from sawlog.broker.api.acls import delete_acls

    return delete_acls


def _describe_log_dirs() -> "Handler[DescribeLogDirsRequest, DescribeLogDirsResponse]":
    from sawlog.broker.api.log_dirs import describe_log_dirs

    return describe_log_dirs


def _alter_replica_log_dirs() -> "Handler[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse]":
    from sawlog.broker.api.log_dirs import alter_replica_log_dirs

    return alter_replica_log_dirs


def _describe_client_quotas() -> (
    "Handler[DescribeClientQuotasRequest, DescribeClientQuotasResponse]"
):
    from sawlog.broker.api.client_quotas import describe_client_quotas

    return describe_client_quotas


def _describe_user_scram_credentials() -> (
    "Handler[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse]"
):
    from sawlog.broker.api.scram_credentials import describe_user_scram_credentials

    return describe_user_scram_credentials


def _elect_leaders() -> "Handler[ElectLeadersRequest, ElectLeadersResponse]":
    from sawlog.broker.api.elect_leaders import elect_leaders

    return elect_leaders


def _alter_partition_reassignments() -> (
    "Handler[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse]"
):
    from sawlog.broker.api.partition_reassignments import alter_partition_reassignments

    return alter_partition_reassignments


def _list_partition_reassignments() -> (
    "Handler[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse]"
):
    from sawlog.broker.api.partition_reassignments import list_partition_reassignments

    return list_partition_reassignments


def _add_partitions_to_txn() -> "Handler[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]":
    from sawlog.broker.api.transactions import add_partitions_to_txn

    return add_partitions_to_txn


def _add_offsets_to_txn() -> "Handler[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]":
    from sawlog.broker.api.transactions import add_offsets_to_txn

    return add_offsets_to_txn


def _end_txn() -> "Handler[EndTxnRequest, EndTxnResponse]":
    from sawlog.broker.api.transactions import end_txn

    return end_txn


def _write_txn_markers() -> "Handler[WriteTxnMarkersRequest, WriteTxnMarkersResponse]":
    from sawlog.broker.api.write_txn_markers import write_txn_markers

    return write_txn_markers


def _describe_transactions() -> (
    "Handler[DescribeTransactionsRequest, DescribeTransactionsResponse]"
):
    from sawlog.broker.api.transaction_admin import describe_transactions

    return describe_transactions


def _list_transactions() -> "Handler[ListTransactionsRequest, ListTransactionsResponse]":
    from sawlog.broker.api.transaction_admin import list_transactions

    return list_transactions


LOADERS: "dict[ApiKey, Callable[[], AnyHandler]]" = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets_to_txn,
    ApiKey.END_TXN: _end_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: _list_config_resources,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
}
"""The served APIs, as ApiVersions lists them."""


def served_apis() -> dict[int, Api]:
    return {int(key): Api(key, load) for key, load in LOADERS.items()}
