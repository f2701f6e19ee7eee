"""Sawlog: logs in, tables out. A Kafka-compatible log broker in Python."""

__version__ = "0.1.0"
