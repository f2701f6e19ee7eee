"""Topics to tables with Spark. `from sawlog.pipeline import Pipeline` is the Python API."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sawlog.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    """Import the API on first use: tasks on executors need only other modules of this package."""
    if name == "Pipeline":
        from sawlog.pipeline.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
