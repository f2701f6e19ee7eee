"""Environment variables in the values of the pipeline file: `${NAME}` and `${NAME:-default}`.

Variables are often passwords. So problems of the file show a value as it is written there,
`${NAME}`, and never what the environment has.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import yaml

_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\{))")


Report = Callable[[yaml.Node, str], None]


class EnvironmentValues:
    """The scalars of a file that contain variables, with their values as written."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._found: dict[int, tuple[yaml.ScalarNode, str]] = {}  # by the id of the node

    def substitute(self, node: yaml.Node, report: Report) -> None:
        """Replace the variables of all scalars below `node`, but not of keys.

        `$$` stands for one dollar, and another dollar for itself. As in a shell, the default
        counts if the variable is not set or empty. `report` receives variables that are not set.
        """
        for scalar in _scalars(node, set()):
            written = scalar.value
            scalar.value = _VARIABLE.sub(partial(self._value, scalar, report), written)
            if any(match[2] for match in _VARIABLE.finditer(written)):
                self._found[id(scalar)] = (scalar, written)

    def _value(self, scalar: yaml.ScalarNode, report: Report, match: re.Match[str]) -> str:
        dollar, name, default, unclosed = match.groups()
        if dollar:
            return "$"
        if unclosed:
            report(scalar, "expected ${NAME} or ${NAME:-default}, or $$ for a dollar")
            return ""
        found = self._environment.get(name)
        if default is not None:
            return found or str(default)
        if found is None:
            report(
                scalar, f"the environment variable {name!r} is not set; set it, or give a default:"
                f" ${{{name}:-default}}"
            )  # fmt: skip
        return found or ""

    def written(self, node: yaml.Node | None) -> str | None:
        """A scalar or a list as the file has it, if variables are in it; else None."""
        if isinstance(node, yaml.SequenceNode):
            return next((text for item in node.value if (text := self.written(item))), None)
        return self._found[id(node)][1] if id(node) in self._found else None

    def as_written(self, node: yaml.Node) -> yaml.Node:
        """A copy of a scalar or a list that has the variables instead of their values."""
        made = copy.copy(node)
        if isinstance(node, yaml.SequenceNode):
            made.value = [self.as_written(item) for item in node.value]
        elif isinstance(node, yaml.ScalarNode):
            made.value = self.written(node) or node.value
        return made

    def hide(self, text: str) -> str:
        """Replace the values of variables in a text by what the file has."""
        for scalar, written in self._found.values():
            if scalar.value:
                value = re.escape(scalar.value)
                text = re.sub(rf"(?<![\w.-]){value}(?![\w-])", partial(_constant, written), text)
        return text


def _constant(text: str, _: re.Match[str]) -> str:
    return text


def _scalars(node: yaml.Node, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    """The scalars below a node, each once: aliases are the same node."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, seen)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _scalars(value, seen)
