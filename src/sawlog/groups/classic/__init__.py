"""Groups whose leader, one of the members, assigns the partitions (the classic protocol)."""
