"""Delta tables that know how far they are.

A table is a directory of Parquet files and a log of numbered versions. Tasks write files beside it
(`writing`); only a commit, which creates the next version or fails, makes them part of it
(`table`). It keeps the next offset of every topic partition that was landed in it, so that a batch
which is committed again, by whomever, changes nothing.
"""

from sawlog.pipeline.delta.dataframe import read as read
