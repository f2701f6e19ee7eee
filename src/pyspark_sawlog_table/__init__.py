"""Found by PySpark as `pyspark_sawlog` is: so `format("sawlog-table")` works without a jar, too."""

from sawlog.pipeline.delta.table_source import TableSource as DefaultSource

__all__ = ["DefaultSource"]
