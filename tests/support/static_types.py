"""A small type inference on the AST, for tests of rules that need types.

It reads annotations and constructor calls, and follows them through locals, attributes, loops and
containers. What it cannot infer is UNKNOWN, never a guess; `Any` is UNKNOWN too. A name that is
bound several times has the types of all its bindings.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

NAMED_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ITERABLES = frozenset(
    {
        *("list", "set", "frozenset", "deque", "Sequence", "Iterable", "Iterator", "Collection"),
        *("Generator", "AbstractSet", "Set", "MutableSequence", "KeysView", "ValuesView"),
    }
)
MAPPINGS = frozenset({"dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"})
WRAPPERS = frozenset({"Optional", "Union", "Final", "ClassVar", "Annotated"})
COPIES = frozenset({"list", "sorted", "reversed", "set", "tuple", "frozenset", "deque", "iter"})
PICKS = frozenset({"next", "max", "min"})
PROPERTIES = frozenset({"property", "cached_property"})

OURS = "sawlog."

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Type:
    """A class by its full name, or `list`, `dict`, `tuple`, `type`, `callable` with arguments."""

    name: str
    args: tuple[frozenset["Type"], ...] = ()


Types = frozenset[Type]
UNKNOWN = Type("?")
ANYTHING: Types = frozenset({UNKNOWN})
NONE: Types = frozenset({Type("None")})
PLAIN: Types = frozenset({Type("builtins.object")})


def one(name: str, *args: Types) -> Types:
    return frozenset({Type(name, args)})


def join(parts: Iterable[Types]) -> Types:
    return frozenset().union(*parts)


@dataclass(eq=False)
class Module:
    name: str
    tree: ast.Module

    @cached_property
    def imports(self) -> dict[str, str]:
        """The full name of each imported name, imports inside functions included."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.split(".")[0]
                    names[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        return names

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """Classes, functions and assignments of the module's top level."""
        found: dict[str, ast.AST] = {}
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, *NAMED_FUNCTIONS)):
                found[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node
        return found


@dataclass(eq=False)
class Class:
    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return f"{self.module.name}.{self.node.name}"

    def methods(self) -> Iterator[FunctionNode]:
        return (node for node in self.node.body if isinstance(node, NAMED_FUNCTIONS))


@dataclass(eq=False)
class Scope:
    """The body of a function, a class or a module, or a comprehension; `owner` is the class around
    a method."""

    module: Module
    node: ast.AST
    owner: Class | None = None
    parent: "Scope | None" = None

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the body, without those of the functions and classes in it."""
        found: list[ast.AST] = []
        pending: list[ast.AST] = list(getattr(self.node, "body", ()))
        while pending:
            node = pending.pop()
            found.append(node)
            if not isinstance(node, (*NAMED_FUNCTIONS, ast.ClassDef)):
                pending.extend(ast.iter_child_nodes(node))
        return found

    @cached_property
    def bindings(self) -> dict[str, list[tuple[ast.AST, ast.AST]]]:
        """The statements that bind each local name, with the whole target."""
        found: dict[str, list[tuple[ast.AST, ast.AST]]] = {}
        # The names of a comprehension are its own, not those of the function around it.
        own = getattr(self.node, "generators", None)
        for node in own or (n for n in self.nodes if not isinstance(n, ast.comprehension)):
            for target in _targets(node):
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        found.setdefault(name.id, []).append((target, node))
        return found

    @cached_property
    def arguments(self) -> dict[str, ast.arg]:
        if not isinstance(self.node, NAMED_FUNCTIONS):
            return {}
        given = self.node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        return {argument.arg: argument for argument in named}

    @cached_property
    def receiver(self) -> str | None:
        """`self` or `cls` in the scope of a method, as its first argument is called there."""
        is_method = self.parent is not None and isinstance(self.parent.node, ast.ClassDef)
        if not is_method or not self.arguments or "staticmethod" in _decorators(self.node):
            return None
        return next(iter(self.arguments))


def scopes(module: Module) -> Iterator[Scope]:
    """Every scope of a module, each after the one around it."""
    pending = [Scope(module, module.tree)]
    while pending:
        scope = pending.pop()
        yield scope
        for node in scope.nodes:
            if isinstance(node, ast.ClassDef):
                pending.append(Scope(module, node, Class(module, node), scope))
            elif isinstance(node, NAMED_FUNCTIONS):
                pending.append(Scope(module, node, scope.owner, scope))


def _decorators(node: ast.AST) -> set[str]:
    return {ast.unparse(d).split(".")[-1] for d in getattr(node, "decorator_list", ())}


def _targets(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Assign():
            targets: list[ast.AST] = list(node.targets)
        case ast.AnnAssign() | ast.NamedExpr() | ast.For() | ast.AsyncFor() | ast.comprehension():
            targets = [node.target]
        case ast.withitem(optional_vars=ast.expr() as target):
            targets = [target]
        case (
            ast.FunctionDef(name=str(name))
            | ast.AsyncFunctionDef(name=str(name))
            | ast.ClassDef(name=str(name))
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            targets = [ast.Name(name, ast.Store())]
        case _:
            targets = []
    return [t for t in targets if isinstance(t, ast.Name | ast.Tuple | ast.List)]


class Inference:
    """`load` returns the module with a full name, or None for one that is not ours."""

    def __init__(self, load: Callable[[str], Module | None]) -> None:
        self._load = load
        self._under_way: set[int] = set()

    def class_named(self, full: str) -> Class | None:
        found = self._definition(full)
        return Class(found[0], found[1]) if found and isinstance(found[1], ast.ClassDef) else None

    def bases(self, cls: Class) -> list[str]:
        """The full names of the base classes, `Generic[T]` as `typing.Generic`."""
        return [self._full_name(cls.module, base) or "?" for base in cls.node.bases]

    def infer(self, node: ast.AST | None, scope: Scope) -> Types:
        if node is None or id(node) in self._under_way:
            return ANYTHING if node is None else frozenset()
        self._under_way.add(id(node))
        try:
            return self._infer(node, scope)
        finally:
            self._under_way.discard(id(node))

    def _infer(self, node: ast.AST, scope: Scope) -> Types:
        match node:
            case ast.Constant(value=None):
                return NONE
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return PLAIN
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute(value=value, attr=attr):
                full = self._full_name(scope.module, node)
                if full and (self._definition(full) or not full.startswith(OURS)):
                    return self._global(full)
                return join(self._member(t, attr) for t in self.infer(value, scope))
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.infer(value, scope)
            case ast.Subscript(value=value, slice=index):
                return join(_item(t, index) for t in self.infer(value, scope))
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return one("list", join(self.infer(part, scope) for part in parts))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                inner = Scope(scope.module, node, scope.owner, scope)
                return one("list", self.infer(part, inner))
            case ast.Dict(keys=keys, values=values):
                sides = (join(self.infer(p, scope) for p in parts) for parts in (keys, values))
                return one("dict", *sides)
            case ast.DictComp(key=key, value=value):
                inner = Scope(scope.module, node, scope.owner, scope)
                return one("dict", self.infer(key, inner), self.infer(value, inner))
            case ast.Tuple(elts=parts):
                return one("tuple", *(self.infer(part, scope) for part in parts))
            case ast.IfExp(body=first, orelse=second):
                return self.infer(first, scope) | self.infer(second, scope)
            case ast.BoolOp(values=values):
                return join(self.infer(value, scope) for value in values)
            case ast.NamedExpr(value=value):
                return self.infer(value, scope)
        return ANYTHING

    # Names

    def _name(self, name: str, scope: Scope) -> Types:
        around: Scope | None = scope
        while around is not None:
            if name == around.receiver and around.owner is not None:
                own = one(around.owner.name)
                is_class = "classmethod" in _decorators(around.node) or name == "cls"
                return one("type", own) if is_class else own
            bound = [self._bound(name, *each, around) for each in around.bindings.get(name, ())]
            argument = around.arguments.get(name)
            if argument is not None:
                bound.append(self.annotation(argument.annotation, scope.module))
            if bound and not isinstance(around.node, ast.ClassDef | ast.Module):
                return join(bound)
            around = around.parent
        full = self._full_name(scope.module, ast.Name(name))
        return ANYTHING if full is None else self._global(full)

    def _bound(self, name: str, target: ast.AST, node: ast.AST, scope: Scope) -> Types:
        match node:
            case ast.AnnAssign(annotation=annotation):
                return self.annotation(annotation, scope.module)
            case ast.Assign(value=value) | ast.NamedExpr(value=value):
                return _unpack(name, target, self.infer(value, scope))
            case ast.For(iter=source) | ast.comprehension(iter=source):
                elements = join(_elements(t) for t in self.infer(source, scope))
                return _unpack(name, target, elements)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return one("callable", self.annotation(node.returns, scope.module))
        return ANYTHING

    def _global(self, full: str) -> Types:
        found = self._definition(full)
        if found is None:
            # Classes of other libraries; what their functions return is unknown.
            is_class = not full.startswith(OURS) and full.split(".")[-1][:1].isupper()
            return one("type", one(full)) if is_class else ANYTHING
        module, node = found
        match node:
            case ast.ClassDef(name=name):
                return one("type", one(f"{module.name}.{name}"))
            case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns):
                return one("callable", self.annotation(returns, module))
            case ast.AnnAssign(annotation=annotation):
                return self.annotation(annotation, module)
        return self.infer(node, Scope(module, module.tree))

    def _full_name(self, module: Module, node: ast.AST) -> str | None:
        match node:
            case ast.Name(id=name) if name in module.definitions:
                return f"{module.name}.{name}"
            case ast.Name(id=name):
                return module.imports.get(name)
            case ast.Attribute(value=value, attr=attr):
                base = self._full_name(module, value)
                return None if base is None else f"{base}.{attr}"
            case ast.Subscript(value=value):
                return self._full_name(module, value)
        return None

    def _definition(self, full: str) -> tuple[Module, ast.AST] | None:
        """The module that defines a name, imported names followed, and the defining node."""
        root, _, name = full.rpartition(".")
        module = self._load(root) if root else None
        if module is None:
            return None
        if name in module.definitions:
            return module, module.definitions[name]
        return self._definition(module.imports[name]) if name in module.imports else None

    # Annotations

    def annotation(self, node: ast.AST | None, module: Module) -> Types:
        match node:
            case ast.Constant(value=None):
                return NONE
            case ast.Constant(value=str(text)):
                return self.annotation(ast.parse(text, mode="eval").body, module)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return self.annotation(left, module) | self.annotation(right, module)
            case ast.Name() | ast.Attribute():
                return self._named_type(node, module)
            case ast.Subscript(value=value, slice=index):
                return self._generic(value, index, module)
        return ANYTHING

    def _named_type(self, node: ast.Name | ast.Attribute, module: Module) -> Types:
        full = self._full_name(module, node)
        if full is None:
            name = ast.unparse(node)
            return one(name) if name in ITERABLES | MAPPINGS else PLAIN
        found = self._definition(full)
        if found is None:
            is_unknown = full.startswith(OURS) or full == "typing.Any"
            return ANYTHING if is_unknown else one(full)
        where, what = found
        if isinstance(what, ast.ClassDef):
            return one(f"{where.name}.{what.name}")
        return self.annotation(what, where)  # an alias

    def _generic(self, value: ast.expr, index: ast.expr, module: Module) -> Types:
        name = ast.unparse(value).split(".")[-1]
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if name == "Callable":
            return one("callable", self.annotation(parts[-1], module))
        is_endless = isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
        args = [self.annotation(part, module) for part in parts[: -1 if is_endless else None]]
        if name in WRAPPERS:
            return join(args) | NONE
        if name in ITERABLES or (name == "tuple" and is_endless):
            return one("list", args[0])
        if name in MAPPINGS:
            return one("dict", *args)
        if name in ("tuple", "type"):
            return one(name, *args)
        return self.annotation(value, module)

    # Members and calls

    def _member(self, of: Type, name: str) -> Types:
        if of.name in ("None", "builtins.object"):
            return frozenset()
        if of.name == "type":
            if name == "__new__":
                return one("callable", of.args[0])
            return join(self._member(each, name) for each in of.args[0])
        if of.name in ("list", "dict") and of.args:
            return _container_method(of, name)
        cls = self.class_named(of.name)
        return ANYTHING if cls is None else self._class_member(cls, name)

    def _class_member(self, cls: Class, name: str) -> Types:
        for node in cls.node.body:
            match node:
                case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                    if found == name:
                        returned = self.annotation(node.returns, cls.module)
                        is_property = _decorators(node) & PROPERTIES
                        return returned if is_property else one("callable", returned)
                case ast.AnnAssign(target=ast.Name(id=found), annotation=annotation):
                    if found == name:
                        return self.annotation(annotation, cls.module)
        assigned = list(self._assigned_in_methods(cls, name))
        if assigned:
            return join(assigned)
        owners = filter(None, map(self.class_named, self.bases(cls)))
        return join(self._class_member(owner, name) for owner in owners) or ANYTHING

    def _assigned_in_methods(self, cls: Class, name: str) -> Iterator[Types]:
        body = Scope(cls.module, cls.node, cls, Scope(cls.module, cls.module.tree))
        for method in cls.methods():
            scope = Scope(cls.module, method, cls, body)
            for node in scope.nodes:
                match node:
                    case ast.AnnAssign(target=ast.Attribute(attr=found), annotation=annotation):
                        if found == name:
                            yield self.annotation(annotation, cls.module)
                            return  # the declaration, which holds for all assignments
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            if isinstance(target, ast.Attribute) and target.attr == name:
                                yield self.infer(value, scope)

    def _call(self, node: ast.Call, scope: Scope) -> Types:
        first = node.args[0] if node.args else None
        match node.func:
            case ast.Name(id=name) if name in COPIES:
                return one("list", join(_elements(t) for t in self.infer(first, scope)))
            case ast.Name(id=name) if name in PICKS and len(node.args) == 1:
                return join(_elements(t) for t in self.infer(first, scope))
            case ast.Name(id="enumerate"):
                elements = join(_elements(t) for t in self.infer(first, scope))
                return one("list", one("tuple", PLAIN, elements))
            case ast.Name(id="zip"):
                columns = (join(_elements(t) for t in self.infer(arg, scope)) for arg in node.args)
                return one("list", one("tuple", *columns))
            case ast.Name(id="cast"):
                return self.annotation(first, scope.module)
            case ast.Name(id="type"):
                return one("type", self.infer(first, scope))
            case (
                ast.Name(id="copy" | "replace" | "deepcopy")
                | ast.Attribute(value=ast.Name(id="copy" | "dataclasses"))
            ):
                return self.infer(first, scope)
        return join(
            t.args[0] if t.name in ("type", "callable") and t.args else ANYTHING
            for t in self.infer(node.func, scope)
        )


def _elements(of: Type) -> Types:
    if of.name == "None":
        return frozenset()
    if of.name in ("list", "dict") and of.args:
        return of.args[0]
    return join(of.args) if of.name == "tuple" else ANYTHING


def _item(of: Type, index: ast.AST) -> Types:
    if of.name == "dict" and len(of.args) == 2:
        return of.args[1]
    if of.name == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
        return of.args[index.value]
    return _elements(of)


def _container_method(of: Type, name: str) -> Types:
    values = of.args[-1]
    match name:
        case "values":
            return one("callable", one("list", values))
        case "items":
            return one("callable", one("list", one("tuple", *of.args)))
        case "pop" | "popleft" | "get" | "setdefault":
            return one("callable", values)
        case "copy":
            return one("callable", frozenset({of}))
    return ANYTHING


def _unpack(name: str, target: ast.AST, types: Types) -> Types:
    """The types of `name` in a target such as `first, (name, other)`."""
    if isinstance(target, ast.Name):
        return types
    parts = getattr(target, "elts", ())
    for position, part in enumerate(parts):
        if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(part)):
            if isinstance(part, ast.Starred):
                return ANYTHING
            inner = (
                t.args[position] if t.name == "tuple" and position < len(t.args) else _elements(t)
                for t in types
            )
            return _unpack(name, part, join(inner))
    return ANYTHING
