"""Errors of the data source as Spark shows them: the reason in one line instead of a traceback.

Spark turns the exception of a Python worker into text with a traceback, unless it is told to hide
it. The worker exits after an exception, so what is set here concerns that exception only. Errors
that are not expected keep their traceback. The stderr of a worker is the user's terminal if Spark
runs on one machine, so it gets a traceback only if the error may be a defect.
"""

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sawlog.client.errors import ClientError
from sawlog.client.producer.transaction_errors import TransactionError
from sawlog.core.errors import KafkaError
from sawlog.pipeline.sink.sink_errors import BadRows, Refused
from sawlog.pipeline.source.executor_check import ExecutorDiffers
from sawlog.pipeline.source.option_values import BadOption
from sawlog.pipeline.source.subscription import BadPosition
from sawlog.pipeline.source.topic_stream import DataLost

Class = TypeVar("Class", bound=type)
_EXPLAINED = (
    BadOption,
    BadPosition,
    DataLost,
    KafkaError,
    ClientError,
    TransactionError,
    ExecutorDiffers,
    BadRows,
    Refused,
)
_EXPECTED = (ValueError, *_EXPLAINED)
_HIDE = "SPARK_HIDE_TRACEBACK"  # read by PySpark's worker when it reports an exception


class SourceError(Exception):
    """An expected error of the source or sink; the message is that of its cause."""


SourceError.__module__ = "sawlog"  # Spark prints it before the message


def short_errors(cls: Class) -> Class:
    """Let the public methods of a reader, writer or source raise SourceError in a worker."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and callable(method):
            setattr(cls, name, _shortened(method))
    return cls


def _shortened(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def shortened(*args: Any, **kwargs: Any) -> Any:
        with _short():
            result = method(*args, **kwargs)
        return _iterated(result) if isinstance(result, Iterator) else result

    return shortened


def _iterated(rows: Iterator[Any]) -> Iterator[Any]:
    with _short():
        yield from rows


@contextmanager
def _short() -> Iterator[None]:
    try:
        yield
    except _EXPECTED as error:
        if not _is_in_worker():
            raise
        if not isinstance(error, _EXPLAINED):
            traceback.print_exc(file=sys.stderr)  # in the log of the worker
        os.environ[_HIDE] = "1"
        raise SourceError(str(error)) from error


def _is_in_worker() -> bool:
    """Whether this process is a Python worker of Spark, whose main module is one of PySpark's."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
