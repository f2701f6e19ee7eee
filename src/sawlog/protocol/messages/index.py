"""All APIs at a glance: written by tools/generate_messages.py, not by hand."""

from enum import IntEnum


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


VERSIONS: dict[ApiKey, tuple[str, str, bool]] = {
    # the versions that exist, the flexible ones, and whether the last is a draft
    ApiKey.PRODUCE: ("3-13", "9+", False),
    ApiKey.FETCH: ("4-18", "12+", False),
    ApiKey.LIST_OFFSETS: ("1-11", "6+", False),
    ApiKey.METADATA: ("0-13", "9+", False),
    ApiKey.LEADER_AND_ISR: ("none", "none", False),
    ApiKey.STOP_REPLICA: ("none", "none", False),
    ApiKey.UPDATE_METADATA: ("none", "none", False),
    ApiKey.CONTROLLED_SHUTDOWN: ("none", "none", False),
    ApiKey.OFFSET_COMMIT: ("2-10", "8+", False),
    ApiKey.OFFSET_FETCH: ("1-10", "6+", False),
    ApiKey.FIND_COORDINATOR: ("0-6", "3+", False),
    ApiKey.JOIN_GROUP: ("0-9", "6+", False),
    ApiKey.HEARTBEAT: ("0-4", "4+", False),
    ApiKey.LEAVE_GROUP: ("0-5", "4+", False),
    ApiKey.SYNC_GROUP: ("0-5", "4+", False),
    ApiKey.DESCRIBE_GROUPS: ("0-6", "5+", False),
    ApiKey.LIST_GROUPS: ("0-5", "3+", False),
    ApiKey.SASL_HANDSHAKE: ("0-1", "none", False),
    ApiKey.API_VERSIONS: ("0-4", "3+", False),
    ApiKey.CREATE_TOPICS: ("2-7", "5+", False),
    ApiKey.DELETE_TOPICS: ("1-6", "4+", False),
    ApiKey.DELETE_RECORDS: ("0-2", "2+", False),
    ApiKey.INIT_PRODUCER_ID: ("0-6", "2+", True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("2-4", "4+", False),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("0-5", "3+", False),
    ApiKey.ADD_OFFSETS_TO_TXN: ("0-4", "3+", False),
    ApiKey.END_TXN: ("0-5", "3+", False),
    ApiKey.WRITE_TXN_MARKERS: ("1-2", "1+", False),
    ApiKey.TXN_OFFSET_COMMIT: ("0-5", "3+", False),
    ApiKey.DESCRIBE_ACLS: ("1-3", "2+", False),
    ApiKey.CREATE_ACLS: ("1-3", "2+", False),
    ApiKey.DELETE_ACLS: ("1-3", "2+", False),
    ApiKey.DESCRIBE_CONFIGS: ("1-4", "4+", False),
    ApiKey.ALTER_CONFIGS: ("0-2", "2+", False),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("1-2", "2+", False),
    ApiKey.DESCRIBE_LOG_DIRS: ("1-5", "2+", False),
    ApiKey.SASL_AUTHENTICATE: ("0-2", "2+", False),
    ApiKey.CREATE_PARTITIONS: ("0-3", "2+", False),
    ApiKey.CREATE_DELEGATION_TOKEN: ("1-3", "2+", False),
    ApiKey.RENEW_DELEGATION_TOKEN: ("1-2", "2+", False),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ("1-2", "2+", False),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ("1-3", "2+", False),
    ApiKey.DELETE_GROUPS: ("0-2", "2+", False),
    ApiKey.ELECT_LEADERS: ("0-2", "2+", False),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("0-1", "1+", False),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("0-1", "0+", False),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("0", "0+", False),
    ApiKey.OFFSET_DELETE: ("0", "none", False),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ("0-1", "1+", False),
    ApiKey.ALTER_CLIENT_QUOTAS: ("0-1", "1+", False),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("0", "0+", False),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("0", "0+", False),
    ApiKey.VOTE: ("0-2", "0+", False),
    ApiKey.BEGIN_QUORUM_EPOCH: ("0-1", "1+", False),
    ApiKey.END_QUORUM_EPOCH: ("0-1", "1+", False),
    ApiKey.DESCRIBE_QUORUM: ("0-2", "0+", False),
    ApiKey.ALTER_PARTITION: ("2-3", "0+", False),
    ApiKey.UPDATE_FEATURES: ("0-2", "0+", False),
    ApiKey.ENVELOPE: ("0", "0+", False),
    ApiKey.FETCH_SNAPSHOT: ("0-1", "0+", False),
    ApiKey.DESCRIBE_CLUSTER: ("0-2", "0+", False),
    ApiKey.DESCRIBE_PRODUCERS: ("0", "0+", False),
    ApiKey.BROKER_REGISTRATION: ("0-4", "0+", False),
    ApiKey.BROKER_HEARTBEAT: ("0-2", "0+", False),
    ApiKey.UNREGISTER_BROKER: ("0", "0+", False),
    ApiKey.DESCRIBE_TRANSACTIONS: ("0", "0+", False),
    ApiKey.LIST_TRANSACTIONS: ("0-2", "0+", False),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("0", "0+", False),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ("0-1", "0+", False),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("0-1", "0+", False),
    ApiKey.CONTROLLER_REGISTRATION: ("0", "0+", False),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ("0", "0+", False),
    ApiKey.PUSH_TELEMETRY: ("0", "0+", False),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ("0", "0+", False),
    ApiKey.LIST_CONFIG_RESOURCES: ("0-1", "0+", False),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("0", "0+", False),
    ApiKey.SHARE_GROUP_HEARTBEAT: ("1", "0+", False),
    ApiKey.SHARE_GROUP_DESCRIBE: ("1", "0+", False),
    ApiKey.SHARE_FETCH: ("1-2", "0+", False),
    ApiKey.SHARE_ACKNOWLEDGE: ("1-2", "0+", False),
    ApiKey.ADD_RAFT_VOTER: ("0-1", "0+", False),
    ApiKey.REMOVE_RAFT_VOTER: ("0", "0+", False),
    ApiKey.UPDATE_RAFT_VOTER: ("0", "0+", False),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ("0", "0+", False),
    ApiKey.READ_SHARE_GROUP_STATE: ("0", "0+", False),
    ApiKey.WRITE_SHARE_GROUP_STATE: ("0-1", "0+", False),
    ApiKey.DELETE_SHARE_GROUP_STATE: ("0", "0+", False),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ("0-1", "0+", False),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ("0", "0+", False),
    ApiKey.STREAMS_GROUP_DESCRIBE: ("0", "0+", False),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("0-1", "0+", False),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ("0", "0+", False),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ("0", "0+", False),
}
