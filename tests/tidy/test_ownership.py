"""An object owns its state: no code assigns attributes of another object that has behaviour.

Allowed are `self` and `cls`, objects that the same function has just constructed from a class of
its own module (alternative constructors), protocol messages, other classes without methods, and
objects of other libraries. An object whose type the checker cannot infer counts as one with
behaviour; an annotation makes it known.
"""

import ast
from collections.abc import Iterator

import pytest

from support.sources import SOURCE, modules_of, name_of, parse
from support.static_types import Class, Inference, Module, Scope, Type, Types, scopes

OWNED_PACKAGES = (
    "storage",
    "replication",
    "coordinator",
    "groups",
    "transactions",
    "cluster",
    "broker",
)
"""Packages whose objects own their state."""

MESSAGES = "sawlog.protocol.messages."
PLAIN_BASES = frozenset({"typing.NamedTuple", "typing.Protocol", "typing.Generic", "object"})
SETTERS = frozenset({"setattr", "delattr", "object.__setattr__", "object.__delattr__"})


def foreign_assignments(module: Module, inference: Inference) -> Iterator[str]:
    """Yield every forbidden assignment in a module, as `line: target (reason)`."""
    for scope in scopes(module):
        for node in scope.nodes:
            for target in assigned_objects(node):
                reason = why_forbidden(target, scope, inference)
                if reason is not None:
                    yield f"{node.lineno}: {ast.unparse(node)} ({reason})"  # type: ignore[attr-defined]


def assigned_objects(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the object whose attribute a node sets or deletes. Tuple targets, `for` targets,
    augmented and annotated assignments all contain an attribute in a Store or Del context."""
    match node:
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            yield value
        case ast.Call(func=func, args=[first, *_]) if ast.unparse(func) in SETTERS:
            yield first
        case ast.Subscript(
            value=ast.Attribute(value=value, attr="__dict__"), ctx=ast.Store() | ast.Del()
        ):
            yield value


def why_forbidden(target: ast.expr, scope: Scope, inference: Inference) -> str | None:
    if isinstance(target, ast.Name) and (
        is_receiver(target.id, scope) or is_constructed_here(target.id, scope, inference)
    ):
        return None
    types = {t for t in inference.infer(target, scope) if t.name != "None"}
    problems = [problem for t in sorted(types, key=str) if (problem := problem_with(t, inference))]
    if not types:
        return "its type is unknown"
    return problems[0] if problems else None


def is_receiver(name: str, scope: Scope) -> bool:
    """Whether the name is `self` or `cls` of the method that the scope is, or is inside of."""
    around: Scope | None = scope
    while around is not None:
        if name == around.receiver:
            return True
        if name in around.arguments or name in around.bindings:
            return False
        around = around.parent
    return False


def is_constructed_here(name: str, scope: Scope, inference: Inference) -> bool:
    bindings = scope.bindings.get(name, [])
    values = [getattr(node, "value", None) for _, node in bindings]
    return (
        bool(values)
        and name not in scope.arguments
        and all(isinstance(target, ast.Name) for target, _ in bindings)
        and all(constructs_own_class(value, scope, inference) for value in values)
    )


def constructs_own_class(value: ast.AST | None, scope: Scope, inference: Inference) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if ast.unparse(value.func) in ("copy", "copy.copy"):
        return is_own(inference.infer(value, scope), scope, inference)
    func = value.func
    if isinstance(func, ast.Attribute) and func.attr == "__new__":
        func = func.value
    made = inference.infer(func, scope)
    return bool(made) and all(
        t.name == "type" and is_own(t.args[0], scope, inference) for t in made
    )


def is_own(types: Types, scope: Scope, inference: Inference) -> bool:
    found = [inference.class_named(t.name) for t in types]
    return bool(found) and all(cls is not None and cls.module is scope.module for cls in found)


def problem_with(of: Type, inference: Inference) -> str | None:
    if of.name.startswith(MESSAGES):
        return None
    cls = inference.class_named(of.name)
    if cls is not None:
        return None if is_plain(cls, inference) else f"{cls.node.name} has methods"
    is_external = "." in of.name and not of.name.startswith(("sawlog.", "builtins."))
    return None if is_external else "its type is unknown"


def is_plain(cls: Class, inference: Inference) -> bool:
    """Whether a class holds data only: it has no methods but special ones, as `__init__`."""
    if any(not method.name.startswith("__") for method in cls.methods()):
        return False
    bases = inference.bases(cls)
    owners = [inference.class_named(base) for base in bases]
    return all(
        base in PLAIN_BASES or (owner is not None and is_plain(owner, inference))
        for base, owner in zip(bases, owners, strict=True)
    )


class Sources:
    """Modules of the package by their full names, parsed when they are first asked for."""

    def __init__(self, samples: dict[str, str] | None = None) -> None:
        self._found: dict[str, Module | None] = {
            name: Module(name, ast.parse(code)) for name, code in (samples or {}).items()
        }

    def load(self, name: str) -> Module | None:
        if name not in self._found:
            path = SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py")
            is_ours = name.startswith("sawlog.") and path.exists()
            self._found[name] = Module(name, parse(path)) if is_ours else None
        return self._found[name]


def foreign_assignments_of(package: str) -> list[str]:
    sources = Sources()
    inference = Inference(sources.load)
    found: list[str] = []
    for path in modules_of(SOURCE / package):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        module = sources.load(name)
        assert module is not None
        found += [f"{name_of(path)}:{what}" for what in foreign_assignments(module, inference)]
    return found


@pytest.mark.parametrize("package", OWNED_PACKAGES)
def test_no_module_assigns_attributes_of_an_object_with_behaviour(package: str) -> None:
    assert foreign_assignments_of(package) == []


LOG = """
from sawlog.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse
class Log:
    def __init__(self) -> None:
        self.end = 0
        self.other: Log | None = None
    def append(self) -> None: ...
class Position:
    offset: int = 0
class Partition:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.position = Position()
        self.response = FetchResponse()
"""
"""A module that the samples below belong to: a class with behaviour and one with data only."""


FORBIDDEN = """
def f(log: Log) -> None:
    log.end = 1
---
def f(log: 'Log | None') -> None:
    log.end += 1
---
def f(log: Log) -> None:
    log.end: int = 1
---
def f(log: Log) -> None:
    del log.end
---
def f(log: Log) -> None:
    first, (log.end, second) = 1, (2, 3)
---
def f(log: Log) -> None:
    for log.end in range(3): ...
---
def f(log: Log) -> None:
    with open('x') as log.end: ...
---
def f(log: Log) -> None:
    setattr(log, 'end', 1)
---
def f(log: Log) -> None:
    object.__setattr__(log, 'end', 1)
---
def f(log: Log) -> None:
    log.__dict__['end'] = 1
---
def f(logs: list[Log]) -> None:
    for log in logs:
        log.end = 1
---
def f(logs: dict[str, Log]) -> None:
    for _, log in logs.items():
        log.end = 1
---
def f(logs: dict[str, Log]) -> None:
    logs['t'].end = 1
---
def f(partition: Partition) -> None:
    partition.log.end = 1
---
def f(log: Log) -> None:
    log = log or Log()
    log.end = 1
---
def f(log: Log) -> None:
    def inner() -> None:
        log.end = 1
---
def f(self: Log) -> None:
    self.end = 1
---
def f(unknown) -> None:
    unknown.end = 1
---
def f(unknown: object) -> None:
    setattr(unknown, 'end', 1)
---
def f(partition: Partition) -> None:
    log = partition.log
    log.end = 1
---
class A:
    def f(self, log: Log) -> None:
        self.log = log
    def g(self) -> None:
        self.log.end = 1
---
class A:
    @staticmethod
    def f(self: Log) -> None:
        self.end = 1
---
def make() -> Log: ...
def f() -> None:
    log = make()
    log.end = 1
---
from sawlog.storage.log import Log as Other
def f() -> None:
    log = Other()
    log.end = 1
"""

ALLOWED = """
class A:
    def f(self) -> None:
        self.a, self.b = 1, 2
        del self.a
---
class A:
    @classmethod
    def f(cls) -> None:
        cls.count = 1
---
class A:
    def f(self) -> None:
        def g() -> None:
            self.a = 1
---
class A:
    @classmethod
    def f(cls) -> 'A':
        made = cls.__new__(cls)
        made.a = 1
        return made
---
from copy import copy
class A:
    def f(self) -> 'A':
        made = copy(self)
        made.a = 1
        return made
---
def load() -> Log:
    log = Log()
    log.end = 1
    return log
---
def f(position: Position) -> None:
    position.offset = 1
---
def f(partition: Partition) -> None:
    partition.position.offset += 1
---
def f() -> None:
    response = FetchResponse()
    response.error_code = 1
---
def f(response: FetchResponse) -> None:
    for topic in response.responses:
        topic.topic = 't'
        topic.partitions[0].partition_index = 1
---
def f() -> None:
    for topic in [FetchableTopicResponse()]:
        topic.topic = 't'
---
def f() -> None:
    by_name = {'t': FetchableTopicResponse()}
    by_name['t'].topic = 't'
    by_name.setdefault('t', 1).topic = 't'
---
class A:
    def __init__(self) -> None:
        self.answer = FetchResponse()
    def f(self) -> None:
        self.answer.error_code = 1
---
import re2
options = re2.Options()
options.log_errors = False
---
def f(values: dict[str, int]) -> None:
    values['a'] = 1
"""


def found_in(sample: str) -> list[str]:
    sources = Sources({"sawlog.sample": LOG + sample})
    module = sources.load("sawlog.sample")
    assert module is not None
    return list(foreign_assignments(module, Inference(sources.load)))


@pytest.mark.parametrize("sample", FORBIDDEN.split("---\n"))
def test_an_assignment_to_another_object_is_found(sample: str) -> None:
    assert found_in(sample)


@pytest.mark.parametrize("sample", ALLOWED.split("---\n"))
def test_an_assignment_to_own_state_or_to_plain_data_is_allowed(sample: str) -> None:
    assert found_in(sample) == []
