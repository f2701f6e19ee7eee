"""Sawlog measured beside Apache Kafka, by the same clients on the same machine.

`python -m bench` (`make bench`) compares the two and writes docs/benchmarks.md;
`python -m bench.demo` (`make demo`) shows one broker at work. Nothing here is a test: a test
never asserts a time.
"""
