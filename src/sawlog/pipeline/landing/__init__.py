"""Topics to tables, exactly once: the file that says what lands where, and the query that does it.

A task reads a range of offsets, writes Parquet files and reports them; the driver alone commits,
and the table itself knows how far it is (`tables`). Nothing here outlives a run but the tables.
"""
