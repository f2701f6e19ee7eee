"""Delta tables that store the offsets landed in them.

A table is a directory of Parquet files and a log of numbered versions. Tasks write data files
(`parquet_writer`); only a commit, which creates the next version or fails, adds them to the table
(`table`). The log stores the next offset of every topic partition, so committing a batch twice
changes nothing.
"""

from sawlog.pipeline.delta.dataframe import read as read
