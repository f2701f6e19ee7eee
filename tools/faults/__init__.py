"""A cluster of real processes that tests and benchmarks break: brokers, ZooKeeper, links, load."""
