"""Iceberg tables: the same Parquet files as in Delta tables, registered in a catalog by pyiceberg.

Nothing here is imported before a pipeline has a table with `table_format: iceberg`, since pyiceberg
is an extra.
"""
