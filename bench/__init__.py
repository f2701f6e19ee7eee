"""Benchmarks: Sawlog compared with Apache Kafka, with the same clients on the same machine.

`python -m bench` (`make bench`) compares the two and writes docs/benchmarks.md;
`python -m bench.demo` (`make demo`) runs one pipeline. Nothing here is a test: tests never assert
a time.
"""
