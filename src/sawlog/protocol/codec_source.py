"""A builder for generated Python functions, used by the codec compilers.

The source is added to `linecache`, so that tracebacks through a compiled codec show its lines.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Source lines, the current indentation, and the objects that the lines refer to."""

    __slots__ = ("_indent", "_lines", "_names", "namespace")

    def __init__(self, **namespace: Any) -> None:
        self.namespace: dict[str, Any] = namespace
        self._names: dict[int, str] = {}
        self._lines: list[str] = []
        self._indent = ""

    def add(self, *lines: str) -> None:
        self._lines.extend(self._indent + line for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines that are added inside the `with` under `head`."""
        self.add(head)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    def constant(self, value: Any) -> str:
        """Return an expression for the value: a literal, or a name for the object."""
        if value is None or isinstance(value, bool | int | float | str):
            return repr(value)
        known = self._names.get(id(value))
        if known is None:
            known = f"constant_{len(self._names)}"
            self._names[id(value)] = known
            self.namespace[known] = value
        return known

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the source and return its function `name`."""
        text = self.text()
        file_name = f"<{title}>"
        exec(compile(text, file_name, "exec"), self.namespace)
        linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
        compiled: Callable[..., Any] = self.namespace[name]
        return compiled
