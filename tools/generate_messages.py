"""Writes `sawlog/protocol/messages/` from the message definitions inside Kafka's jars.

    python -m tools.generate_messages path/to/kafka-clients-4.3.0.jar \\
        path/to/kafka-group-coordinator-4.3.0.jar

Only facts are taken over: names, types, versions, tags, defaults. The output is a pure function
of the jars, laid out as `ruff format` would, so a test can tell whether the tree has drifted.
"""

import json
import keyword
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Definition = dict[str, Any]

MESSAGES = Path(__file__).resolve().parent.parent / "src/sawlog/protocol/messages"
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}
PYTHON_TYPES = dict.fromkeys(INTEGERS, "int") | {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "uuid": "bytes",
    "bytes": "bytes",
    "records": "Part",
}
SHADOWED = {*PYTHON_TYPES.values(), "list", "field"}
LINE_LENGTH = 100
UNSERVED_RECORDS = ("ShareGroup", "StreamsGroup")


def snake_case(name: str) -> str:
    """`ProducerId` as `producer_id`; KRaft counts as one word."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def read_definitions(jars: Iterable[Path]) -> Iterator[Definition]:
    """All definitions in the jars, by name. Their JSON has comments, on lines of their own."""
    found: dict[str, Definition] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", entry):
                    text = archive.read(entry).decode()
                    definition = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
                    found[definition["name"]] = definition
    for name in sorted(found):
        yield found[name]


def is_served(definition: Definition) -> bool:
    """False for a message that lost its last version, whose definition has no fields any more, and
    for the records of groups that there are not here."""
    if definition["type"].startswith("coordinator-"):
        return not definition["name"].startswith(UNSERVED_RECORDS)
    return bool(definition["validVersions"] != "none")


def lay_out_call(head: str, arguments: list[str], indent: str) -> list[str]:
    """A call on one line, on an indented second one, or with a line for each argument."""
    line = f"{indent}{head}({', '.join(arguments)})"
    if len(line) <= LINE_LENGTH:
        return [line]
    inner = f"{indent}    {', '.join(arguments)}"
    if len(inner) <= LINE_LENGTH:
        return [f"{indent}{head}(", inner, f"{indent})"]
    return [f"{indent}{head}(", *(f"{indent}    {each}," for each in arguments), f"{indent})"]


class Module:
    """The module of one message: its class and, before it, those that it is made of."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.imports = {"Message", "Schema", "field"}
        self.classes: dict[str, list[str]] = {}
        self.common: dict[str, list[Definition]] = {
            struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())
        }

    def text(self) -> str:
        name = self.definition["name"]
        self.add_class(name, self.definition["fields"], schema=self.schema())
        schema_imports = ", ".join(sorted(self.imports - {"Part"}, key=import_order))
        lines = [
            f'"""{name}: written by tools/generate_messages.py, not by hand."""',
            "",
            "from typing import ClassVar",
            "",
        ]
        if "Part" in self.imports:
            lines.append("from sawlog.core.ports import Part")
        lines.append(f"from sawlog.protocol.schema import {schema_imports}")
        for body in self.classes.values():
            lines += ["", "", *body]
        return "\n".join(lines) + "\n"

    def schema(self) -> list[str]:
        definition = self.definition
        arguments = [
            quoted(definition["type"]),
            quoted(definition["validVersions"]),
            quoted(definition["flexibleVersions"]),
        ]
        if "apiKey" in definition:
            arguments.append(f"api_key={definition['apiKey']}")
        return lay_out_call("SCHEMA: ClassVar[Schema] = Schema", arguments, "    ")

    def add_class(self, name: str, fields: list[Definition], schema: list[str]) -> None:
        body = [f"class {name}(Message):", *schema]
        if schema and fields:
            body.append("")
        for each in fields:
            body += self.field(each)
        self.classes[name] = body

    def field(self, field: Definition) -> list[str]:
        element = field["type"].removeprefix("[]")
        is_struct = element[0].isupper()
        if is_struct and element not in self.classes:
            fields = field["fields"] if "fields" in field else self.common[element]
            self.add_class(element, fields, schema=[])
        name = snake_case(field["name"])
        if keyword.iskeyword(name) or name in SHADOWED:
            raise ValueError(f"{self.definition['name']}: a field cannot be called {name!r}")
        kind = field["type"].replace(element, "struct") if is_struct else field["type"]
        versions = field["versions"] if "versions" in field else field["taggedVersions"]
        arguments = [quoted(kind), quoted(versions), self.default(field)]
        if is_struct:
            arguments.append(f"of={element}")
        arguments += self.details(field)
        head = f"{name}: {self.annotation(field)} = field"
        return lay_out_call(head, arguments, "    ")

    def annotation(self, field: Definition) -> str:
        element: str = field["type"].removeprefix("[]")
        annotation = PYTHON_TYPES.get(element, element)
        if field["type"].startswith("[]"):
            annotation = f"list[{annotation}]"
        if is_nullable(field):
            annotation += " | None"
        if annotation == "Part | None":
            annotation = "Records"
        self.imports |= {annotation} & {"Records", "Part"}
        return annotation

    def default(self, field: Definition) -> str:
        kind: str = field["type"]
        given = field.get("default")
        if has_null_default(field) or (kind == "records" and is_nullable(field)):
            return "default=None"
        if kind.startswith("[]"):
            return "default_factory=list"
        if kind in INTEGERS:
            return f"default={int(str(given or 0), 0)}"
        if kind == "bool":
            return f"default={str(given).lower() == 'true'}"
        if kind == "float64":
            return f"default={float(given or 0)}"
        if kind == "string":
            return f"default={quoted(given or '')}"
        if kind == "uuid":
            self.imports.add("NO_UUID")
            return "default=NO_UUID"
        if kind in {"bytes", "records"}:
            return 'default=b""'
        return f"default_factory={kind}"

    def details(self, field: Definition) -> list[str]:
        details = []
        if is_nullable(field) and field.get("nullableVersions", "none") != "none":
            details.append(f"nullable={quoted(field['nullableVersions'])}")
        if "tag" in field:
            details += [f"tag={field['tag']}", f"tagged={quoted(field['taggedVersions'])}"]
        if field.get("ignorable"):
            details.append("ignorable=True")
        if "flexibleVersions" in field:
            details.append(f"flexible={quoted(field['flexibleVersions'])}")
        return details


def is_nullable(field: Definition) -> bool:
    return field.get("nullableVersions", "none") != "none" or has_null_default(field)


def has_null_default(field: Definition) -> bool:
    """It is written as a word or as JSON has it."""
    return field.get("default", "") in {"null", None}


def quoted(text: str) -> str:
    return f'"{text}"'


def import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts the names of an import."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def write_index(definitions: list[Definition]) -> str:
    """The module that knows every API without importing its messages."""
    pairs: dict[int, dict[str, Definition]] = {}
    for each in definitions:
        if each["type"] in {"request", "response"}:
            pairs.setdefault(each["apiKey"], {})[each["type"]] = each
    lines = [
        '"""All APIs at a glance: written by tools/generate_messages.py, not by hand."""',
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
    ]
    rows = []
    for key, pair in sorted(pairs.items()):
        name = pair["request"]["name"].removesuffix("Request")
        constant = snake_case(name).upper()
        if constant.title().replace("_", "") != name:
            raise ValueError(f"{name} cannot be told from {constant}")
        lines.append(f"    {constant} = {key}")
        rows.append(f"    ApiKey.{constant}: {index_row(name, pair['request'], pair['response'])},")
    lines += [
        "",
        "",
        "VERSIONS: dict[ApiKey, tuple[str, str, bool]] = {",
        "    # the versions that exist, the flexible ones, and whether the last is a draft",
        *rows,
        "}",
    ]
    return "\n".join(lines) + "\n"


def index_row(name: str, request: Definition, response: Definition) -> str:
    for aspect in ("validVersions", "flexibleVersions"):
        if request.get(aspect) != response.get(aspect):
            raise ValueError(f"{name}: request and response differ in their {aspect}")
    draft = request.get("latestVersionUnstable", False)
    flexible = request.get("flexibleVersions", "none")
    return f"({quoted(request['validVersions'])}, {quoted(flexible)}, {draft})"


def generate(jars: Iterable[Path]) -> dict[str, str]:
    """File names and their contents."""
    definitions = list(read_definitions(jars))
    files = {"index.py": write_index(definitions)}
    for definition in filter(is_served, definitions):
        files[f"{snake_case(definition['name'])}.py"] = Module(definition).text()
    return files


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit("usage: python -m tools.generate_messages JAR [more jars]")
    files = generate(map(Path, arguments))
    for old in MESSAGES.glob("*.py"):
        if old.name != "__init__.py" and old.name not in files:
            old.unlink()
    for name, text in files.items():
        (MESSAGES / name).write_text(text)
    sys.stdout.write(f"{len(files)} modules\n")


if __name__ == "__main__":
    main(sys.argv[1:])
