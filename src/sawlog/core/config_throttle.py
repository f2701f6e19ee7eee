"""The names of the settings that throttle replication (KIP-73)."""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
THROTTLED_RATES = (LEADER_RATE, FOLLOWER_RATE)
"""Of brokers, in bytes per second."""

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
THROTTLED_REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Of topics: `partition:broker,...`, or ALL_REPLICAS."""

ALL_REPLICAS = "*"
