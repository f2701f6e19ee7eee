"""PySpark's daemon, with the modules of landing tasks: `spark.python.daemon.module` of local runs.

Spark forks its Python workers from a daemon, and each would import PySpark, pyarrow and numba for
itself. A daemon must have no thread that holds a lock when it forks: pyarrow starts one, of
jemalloc, which takes care of forks, and BLAS, which tasks do not use, is told to start none.
"""

import os


def preload() -> None:
    """Import what tasks need, in a process that is about to fork workers."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from sawlog.pipeline.without_pandas import keep_pandas_from_pyarrow

    keep_pandas_from_pyarrow()
    import pyarrow.parquet  # noqa: F401
    import pyspark.worker  # noqa: F401

    from sawlog.client.arrow import record_kernels  # noqa: F401
    from sawlog.pipeline.formats import json_kernels  # noqa: F401
    from sawlog.pipeline.landing.task import table_task  # noqa: F401


if __name__ == "__main__":
    preload()

    from pyspark.daemon import manager

    manager()
