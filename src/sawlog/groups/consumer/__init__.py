"""Groups whose partitions the coordinator assigns (the consumer protocol, KIP-848)."""
