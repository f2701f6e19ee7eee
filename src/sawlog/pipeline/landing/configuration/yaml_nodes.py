"""YAML nodes with their lines: keys checked against known ones, values converted by kind.

All problems of a file are collected before they are reported.
"""

import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePath
from typing import TypeVar

import yaml

from sawlog.core.config_warnings import near_names
from sawlog.pipeline.landing.configuration.environment_values import EnvironmentValues

Value = TypeVar("Value")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?)?B?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_FALSE = ("false", "off", "no")
_WHOLE = re.compile(r"\d[\d_]*")
_DEPTH = 20  # the format itself has four levels


class BadPipelineFile(Exception):
    """The problems of a file, one per line: `file:line: text`."""


class Problems:
    """Collects problems by line, or by the path of keys for nodes of Python objects.

    The values of environment variables are not part of a problem.
    """

    def __init__(
        self, file: str, environment: EnvironmentValues, key_paths: Mapping[int, str] | None = None
    ) -> None:
        """`key_paths` has the path of each node by its `id`, such as `tables.access.format`."""
        self._file = file
        self._environment = environment
        self._key_paths = key_paths
        self._found: list[tuple[int, str]] = []

    def add(self, node: yaml.Node | None, text: str) -> None:
        if (written := self._environment.written(node)) is not None:
            text = f"the value of {written} does not fit here; values of variables are not shown"
        self._add(node, self._environment.hide(text))

    def add_invalid(
        self, node: yaml.Node, name: str, error: ValueError, convert: "Callable[[yaml.Node], Value]"
    ) -> None:
        """Add the error with which `convert` rejected the value of a key.

        If the value has variables, the error is the one that `convert` has for their names.
        """
        if self._environment.written(node) is None:
            self.add(node, f"{name}: {error}")
            return
        try:
            convert(self._environment.as_written(node))
        except ValueError as shown:
            self._add(node, f"{name}: {shown}")
        else:
            self.add(node, "")

    def _add(self, node: yaml.Node | None, text: str) -> None:
        if self._key_paths is None:
            line = 1 if node is None else node.start_mark.line + 1
            self._found.append((line, f"{self._file}:{line}: {text}"))
        else:
            path = self._key_paths.get(id(node), "")
            self._found.append((0, f"{path}: {text}" if path else text))

    def raise_if_any(self) -> None:
        if self._found:
            raise BadPipelineFile("\n".join(text for _, text in sorted(self._found)))


class Section:
    """One mapping of the file. `take` and `section` read its keys; `finish` reports the others."""

    def __init__(self, problems: Problems, node: yaml.MappingNode, title: str) -> None:
        self.problems = problems
        self.node = node
        self.title = title
        self._entries: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._known: list[str] = []
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not name:
                problems.add(key, f"a key of {title} is not text")
            elif name in self._entries:
                first = self._entries[name][0].start_mark.line + 1  # keys of objects are unique
                problems.add(key, f"{name!r} is given twice; the first is in line {first}")
            else:
                self._entries[name] = (key, value)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        return list(self._entries)

    def node_of(self, name: str) -> yaml.Node:
        """The value of a key, or the section itself if the key is missing."""
        entry = self._entries.get(name)
        return self.node if entry is None else entry[1]

    def take(self, name: str, convert: "Callable[[yaml.Node], Value]", default: Value) -> Value:
        """The converted value of a key; the default if it is missing or invalid."""
        self._known.append(name)
        entry = self._entries.get(name)
        if entry is None:
            return default
        try:
            return convert(entry[1])
        except ValueError as error:
            self.problems.add_invalid(entry[1], name, error, convert)
            return default

    def need(self, name: str, convert: "Callable[[yaml.Node], Value]", default: Value) -> Value:
        if name not in self._entries:
            self.problems.add(self.node, f"{self.title} has no {name!r}")
        return self.take(name, convert, default)

    def is_false(self, name: str) -> bool:
        """Take a key whose value may be `false` instead of a section."""
        node = self._entries[name][1]
        if not isinstance(node, yaml.ScalarNode) or node.value.lower() not in _FALSE:
            return False
        self._known.append(name)
        return True

    def section(self, name: str) -> "Section | None":
        self._known.append(name)
        entry = self._entries.get(name)
        if entry is None:
            return None
        if not isinstance(entry[1], yaml.MappingNode):
            self.problems.add(entry[1], f"{name}: expected keys with values, not {kind(entry[1])}")
            return None
        return Section(self.problems, entry[1], name)

    def finish(self, hints: Iterable[str] = ()) -> None:
        for name, (key, _) in self._entries.items():
            if name not in self._known:
                near = near_names(name, dict.fromkeys([*self._known, *hints]))
                known = "" if near else f"; there are {', '.join(sorted(self._known))}"
                self.problems.add(key, f"{self.title} has no key {name!r}{near}{known}")


def parse(
    file: str, text: str, environment: Mapping[str, str]
) -> tuple[Problems, yaml.MappingNode]:
    """The top-level mapping of the file, with the variables of `environment` in its values.

    Raises BadPipelineFile if there is none, or if a variable is not set.
    """
    values = EnvironmentValues(environment)
    problems = Problems(file, values)
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise BadPipelineFile(f"{file}:{line}: invalid YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise BadPipelineFile(f"{file}:1: invalid YAML: {reason}") from None
    if not isinstance(node, yaml.MappingNode):
        found = "nothing" if node is None else kind(node)
        raise BadPipelineFile(f"{file}:1: expected the keys brokers, lake and tables, not {found}")
    _check_depth(problems, node, _DEPTH)
    problems.raise_if_any()
    values.substitute(node, problems.add)
    problems.raise_if_any()
    return problems, node


def represent(content: Mapping[str, object]) -> tuple[Problems, yaml.MappingNode]:
    """Python objects as the nodes that a file with this content has. Raises BadPipelineFile.

    Environment variables are not replaced: Python code has them.
    """
    try:
        node = yaml.SafeDumper(io.StringIO()).represent_data(_plain(content))
    except yaml.representer.RepresenterError as error:
        found = type(error.args[-1]).__name__
        raise BadPipelineFile(f"expected dicts, lists, texts and numbers, not {found}") from None
    key_paths: dict[int, str] = {}
    if not isinstance(node, yaml.MappingNode):
        raise BadPipelineFile(f"expected the keys brokers, lake and tables, not {kind(node)}")
    _collect_key_paths(node, "", key_paths)
    return Problems("", EnvironmentValues({}), key_paths), node


def _plain(content: object) -> object:
    """Mappings as dicts, sequences as lists, and paths as texts."""
    if isinstance(content, Mapping):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return str(content) if isinstance(content, PurePath) else content


def _collect_key_paths(node: yaml.Node, path: str, key_paths: dict[int, str]) -> None:
    if id(node) in key_paths:
        return  # an object that occurs in several places
    key_paths[id(node)] = path
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            key_paths[id(key)] = below
            _collect_key_paths(value, below, key_paths)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _collect_key_paths(value, f"{path}[{place}]", key_paths)


def _check_depth(problems: Problems, node: yaml.Node, left: int) -> None:
    """Report deep nesting: an alias may refer to its own parent, so depth may be infinite."""
    if left == 0:
        problems.add(node, f"nested deeper than {_DEPTH} levels")
        return
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            _check_depth(problems, value, left - 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_depth(problems, value, left - 1)


def kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "keys with values"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return repr(node.value) if node.value else "nothing"


def text(node: yaml.Node) -> str:
    """A scalar as written: `group: 7` is the text 7."""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"expected text, not {kind(node)}")
    if not node.value.strip():
        raise ValueError("expected text, not nothing")
    return str(node.value).strip()


def texts(node: yaml.Node) -> tuple[str, ...]:
    """A list of texts, or a single text."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(text(item) for item in node.value)
    return (text(node),)


def mapping(node: yaml.Node, lists: Collection[str] = ()) -> dict[str, str]:
    """Keys with texts. A key in `lists` may have a list, which is joined by commas."""
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"expected keys with values, not {kind(node)}")
    pairs = [(text(key), value) for key, value in node.value]
    return {
        name: ",".join(texts(value)) if name in lists else _as_written(value)
        for name, value in pairs
    }


def _as_written(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"expected text, not {kind(node)}")
    return str(node.value)


def whole(node: yaml.Node) -> int:
    found = text(node)
    if not _WHOLE.fullmatch(found) or int(found) < 1:
        raise ValueError(f"expected a whole number above 0, not {found!r}")
    return int(found)


def duration_s(node: yaml.Node) -> float:
    return parse_duration_s(text(node))


def size(node: yaml.Node) -> int:
    return parse_size(text(node))


def parse_duration_s(found: str) -> float:
    match = _DURATION.fullmatch(found)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"expected a time like 500ms, 10s, 1m or 2h, not {found!r}")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(found: str) -> int:
    """Parse a size: `256MB` is 256,000,000 bytes, `256MiB` is 268,435,456; no unit is bytes."""
    match = _SIZE.fullmatch(found)
    if match is None:
        raise ValueError(f"expected a size like 64kB, 256MB or 1GiB, not {found!r}")
    unit = match[2] or ""
    base = 1_024 if unit.endswith("i") else 1_000
    amount = float(match[1]) * (base ** _POWERS[unit[0]] if unit else 1)
    if amount < 1 or math.isinf(amount):
        raise ValueError(f"expected a size like 64kB, 256MB or 1GiB, not {found!r}")
    return int(amount)
