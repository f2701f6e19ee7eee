"""Topics to tables with Spark. `from sawlog.pipeline import Pipeline` is the Python API."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sawlog.pipeline.landing.configuration.yaml_nodes import BadPipelineFile
    from sawlog.pipeline.pipeline import Pipeline, PipelineIsRunning
    from sawlog.pipeline.pipeline_events import (
        BatchLanded,
        BatchProgress,
        Message,
        PipelineFailed,
        Progress,
        RunResult,
        StateChanged,
        TableResult,
    )

__all__ = [
    "BadPipelineFile",
    "BatchLanded",
    "BatchProgress",
    "Message",
    "Pipeline",
    "PipelineFailed",
    "PipelineIsRunning",
    "Progress",
    "RunResult",
    "StateChanged",
    "TableResult",
]

_ELSEWHERE = {
    "BadPipelineFile": "landing.configuration.yaml_nodes",
    "Pipeline": "pipeline",
    "PipelineIsRunning": "pipeline",
}


def __getattr__(name: str) -> Any:
    """Import the API on first use: tasks on executors need only other modules of this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'pipeline_events')}"), name)
