"""Lands topics in tables, exactly once, as a pipeline file says.

A task reads a range of offsets, writes Parquet files and reports them; only the driver commits, and
the table stores its offsets (`delta`). The folders are the processes: `driver/`, the Python worker
beside it in which Spark plans batches (`planning/`), the tasks (`task/`), and `configuration/`,
which all of them use. Nothing but the tables outlives a run.
"""
