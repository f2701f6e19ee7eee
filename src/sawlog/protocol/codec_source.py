"""Python source under construction, and its compilation: what the codec compiler writes into.

The text goes to `linecache` too, so that a traceback through a compiled codec shows its lines.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines, their indentation, and the objects that they refer to by name."""

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
        """Everything added inside stands indented under `head`."""
        self.add(head)
        self._indent += "    "
        yield
        self._indent = self._indent[:-4]

    def constant(self, value: Any) -> str:
        """An expression for the value: a literal where it has one, else a name for the object."""
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
        """Compiles the text and returns the function in it that is called `name`."""
        text = self.text()
        file_name = f"<{title}>"
        exec(compile(text, file_name, "exec"), self.namespace)
        linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
        compiled: Callable[..., Any] = self.namespace[name]
        return compiled
