"""Keeps pyarrow and PySpark from importing pandas, which takes a second of CPU in each process.

pyarrow imports it at the first `pa.array`, and PySpark at the first call of the JVM, to recognise
objects that the pipeline does not have. Only for processes of the command line and the workers that
it starts: `pa.array` then treats a Series as any sequence, until `to_pandas` was used.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)
        return None


@contextmanager
def _hidden_pandas() -> Iterator[None]:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def keep_pandas_from_pyarrow() -> None:
    """Let pyarrow look for pandas now, in vain; no effect if pandas is imported already."""
    import pyarrow as pa

    with _hidden_pandas():
        pa.scalar(0)


def keep_pandas_from_pyspark() -> None:
    """Import the module of PySpark that looks for pandas, in vain."""
    with _hidden_pandas():
        import pyspark.testing.utils  # noqa: F401
