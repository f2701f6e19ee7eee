"""Lands topics in tables, exactly once, as a pipeline file says.

A task reads a range of offsets, writes Parquet files and reports them; only the driver commits, and
the table stores its offsets (`delta`). `driver/` and `task/` are what runs in the driver and in the
tasks; `planning/` decides in the driver what lands next, and `configuration/` is used by all.
Nothing but the tables outlives a run.
"""
