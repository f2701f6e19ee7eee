"""Which tables a query may read, by where their names stand in its SQL.

Not a parser: Spark has one, and is not there when a file is read. A name too many, such as one that
a WITH defines, costs a look at that table; a name that is only a column's or an alias counts not.
"""

import re

_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/ | `[^`]*` | [\w.]+ | [(),]""",
    re.DOTALL | re.VERBOSE,
)
_BEFORE_A_TABLE = frozenset({"from", "join", "table"})
_AFTER_THE_TABLES = frozenset({"select", "where", "group", "having", "order"})


def table_names(sql: str) -> set[str]:
    """The names behind FROM, JOIN and TABLE, and in the list that a FROM begins, in lower case."""
    found: set[str] = set()
    lists = [False]  # for each open parenthesis whether commas part tables there
    is_due = False  # whether a name that comes now is a table's
    for token in _TOKEN.findall(sql):
        word = token.lower()
        if word == "(":
            lists.append(is_due)
        elif word == ")":
            is_due = False
            if len(lists) > 1:
                lists.pop()
        elif word == ",":
            is_due = lists[-1]
        elif word in _BEFORE_A_TABLE:
            lists[-1] |= word == "from"
            is_due = True
        elif word in _AFTER_THE_TABLES:
            lists[-1] = is_due = False
        elif is_due and not word.startswith(("--", "/*")):
            found.add(word.strip('`"'))
            is_due = False
    return found
