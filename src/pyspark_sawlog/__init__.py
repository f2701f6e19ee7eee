"""Registers the source `sawlog` with PySpark.

PySpark imports every module whose name starts with `pyspark_` and registers its `DefaultSource`, so
`format("sawlog")` works wherever this package is installed.
"""

from sawlog.pipeline.source.topic_source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
