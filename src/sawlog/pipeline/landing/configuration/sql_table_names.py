"""The tables that a query reads, found in the tokens of its SQL without Spark.

The order of queries and cycles among them must be known where no JVM runs. This is no parser and
never rejects SQL: Spark's parser does (docs/decisions/0011). A name is a table's if it stands where
a relation may stand and no CTE in scope has it. `tests/pipeline/landing/test_sql.py` compares the
result with the relations in Spark's own plan.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<comment>--(?:\\\n|[^\n])* | /\*)
  | (?P<string>[rR](?:'[^']*'|"[^"]*") | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
  | (?P<name>(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))*)
  | (?P<symbol>\|> | \S)
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_END_RELATIONS = frozenset(
    ["where", "having", "qualify", "limit", "offset", "union", "except", "intersect", "minus", "|>"]
)
_END_RELATIONS_WITH_BY = frozenset(["group", "order", "sort", "cluster", "distribute"])
_TRIM = frozenset({"trim", "btrim", "ltrim", "rtrim"})  # `trim(FROM x)` reads no table


def table_names(sql: str) -> set[str]:
    """The names in lower case. Qualified names are left out: tables of a file have none.

    SQL that is nested hundreds of levels deep has no names here; Spark's parser judges it.
    """
    tokens = [*_tokens(sql), "", "", ""]
    try:
        return _Scan(tokens).found
    except RecursionError:
        return set()


def _tokens(sql: str) -> Iterator[str]:
    """Names in lower case, symbols, and `'` for each string; comments are left out."""
    at = 0
    while (match := _TOKEN.search(sql, at)) is not None:
        at = match.end()
        if match["name"] is not None:
            yield re.sub(r"\s*\.\s*", ".", match["name"]).lower()
        elif match["string"] is not None:
            yield match["string"].lstrip("rR").lower()
        elif match["symbol"] is not None:
            yield match["symbol"]
        elif match["comment"] == "/*":
            at = _comment_end(sql, at)


def _comment_end(sql: str, at: int) -> int:
    """Bracketed comments nest, as in Spark."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, at)) is not None:
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at if depth == 0 else len(sql)


@dataclass
class _Group:
    """The tokens between two parentheses, or the whole statement."""

    ctes: frozenset[str]
    is_relation: bool = False  # the parenthesis stands where a relation may stand
    can_be_query: bool = True
    has_query: bool = False  # SELECT or a set operator was seen
    in_relations: bool = field(init=False)  # a comma is followed by a relation
    in_values: bool = False

    def __post_init__(self) -> None:
        self.in_relations = self.is_relation


class _Scan:
    """One pass over the tokens, with a recursion for each parenthesis."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self.found: set[str] = set()
        while tokens[self._at]:
            self._group(_Group(frozenset(), has_query=True))
            self._at += 1  # a parenthesis too many is for Spark to report

    def _group(self, group: _Group) -> None:
        """Scan up to the closing parenthesis of the group."""
        if self._tokens[self._at] == "with":
            self._with(group)
        expects = group.is_relation  # whether the next name is a relation's
        before = "("
        first = self._at
        while (token := self._tokens[self._at]) and token != ")":
            following = self._tokens[self._at + 1]
            opens = following == "("
            self._at += 1
            if before == ".":
                expects = False  # a field may have any name
            elif token == "(":
                is_relation = expects and not group.in_values
                self._group(_Group(group.ctes, is_relation, before not in _TRIM))
                self._at += 1
                token, expects = ")", False
            elif token == ",":
                expects = group.in_relations
            elif token == "from":
                is_first = self._at - 1 == first and group.can_be_query
                if before != "distinct" and (group.has_query or is_first):
                    group.in_relations, group.in_values, expects = True, False, True
            elif token == "select":
                group.in_relations = group.in_values = expects = False
                group.has_query = True
            elif token in ("join", "table"):
                expects = True
            elif token == "lateral" and following == "view":
                group.in_relations = expects = False
            elif not expects and self._ends_relations(token, following):
                group.in_relations = group.in_values = False
                group.has_query = True
            elif expects and token in ("lateral", "stream") and (_is_name(following) or opens):
                pass  # `LATERAL (query)`, `STREAM t`, `STREAM(t)`
            elif expects and token == "values" and following not in (",", ")", ""):
                group.in_values, expects = True, False
            elif expects and token == "identifier" and opens:
                self._add(self._tokens[self._at + 1].strip("'\""), group)
                expects = False
            elif expects:
                if not opens and following[:1] not in ("'", '"'):
                    self._add(token.strip('"'), group)
                expects = False
            elif group.in_values and (token == "as" or (before == ")" and _is_name(token))):
                group.in_values = False  # an alias ends the rows of VALUES
            before = token

    @staticmethod
    def _ends_relations(token: str, following: str) -> bool:
        if token in _END_RELATIONS_WITH_BY:
            return following == "by"
        return token in _END_RELATIONS or (token == "window" and _is_name(following))

    def _with(self, group: _Group) -> None:
        """Scan `WITH [RECURSIVE] name [(columns)] AS (query), ...`; the names join the scope."""
        self._at += 1
        is_recursive = self._tokens[self._at] == "recursive"
        self._at += is_recursive and self._tokens[self._at + 1] not in ("as", "(")
        while name := self._tokens[self._at]:
            self._at += 1
            own = {_unquoted(name)} if is_recursive else set()
            while self._tokens[self._at] not in ("as", ""):
                self._at += 1
            self._at += 1
            if self._tokens[self._at] != "(":
                return
            self._at += 1
            self._group(_Group(group.ctes | own))
            self._at += 1
            group.ctes |= {_unquoted(name)}
            if self._tokens[self._at] != ",":
                return
            self._at += 1

    def _add(self, token: str, group: _Group) -> None:
        name = _unquoted(token)
        if name and name not in group.ctes:
            self.found.add(name)


def _unquoted(token: str) -> str:
    """A name without backquotes; empty for a qualified one and for what is no name."""
    if token.startswith("`") and token.endswith("`") and "`.`" not in token:
        return token[1:-1].replace("``", "`")
    return token if _is_name(token) else ""


def _is_name(token: str) -> bool:
    return token.isidentifier() or (token.startswith("`") and token.endswith("`"))
