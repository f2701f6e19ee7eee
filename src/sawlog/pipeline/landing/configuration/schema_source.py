"""Reads where schemas come from: the keys `registry`, `registry_options` and `schema`."""

from pathlib import Path
from typing import TYPE_CHECKING

from sawlog.pipeline.landing.configuration import yaml_nodes
from sawlog.pipeline.landing.configuration.declared_columns import AVRO_FILE, PROTOBUF_FILE
from sawlog.pipeline.landing.configuration.pipeline_config import INFER, REGISTRY
from sawlog.pipeline.registry.registry_url import RegistryUrl, registry_url

if TYPE_CHECKING:
    import yaml

    from sawlog.pipeline.landing.configuration.yaml_nodes import Section

_CA_FILE = "ca_file"
_NO_URLS: tuple[str, ...] = ()
_FILES = {"avro": "FILE.avsc", "protobuf": "FILE.desc"}
_ALWAYS_WITH_SCHEMA = tuple(_FILES)
_EXAMPLE = "registry: http://HOST:8081"


def read_registry(
    section: "Section", directory: Path, default: RegistryUrl | None
) -> RegistryUrl | None:
    """The registry of the file or of a table; `default` if the section names none."""
    urls = section.take("registry", yaml_nodes.texts, _NO_URLS)
    options = section.take("registry_options", _options, dict[str, str]())
    if not urls:
        if "registry_options" in section and "registry" not in section:
            section.problems.add(
                section.node_of("registry_options"), "registry_options: they belong to a registry,"
                " which is not given beside them"
            )  # fmt: skip
        return default
    try:
        if _CA_FILE in options:
            options["ca_certificates"] = _certificates(directory, options.pop(_CA_FILE))
        return registry_url(urls, options)
    except ValueError as error:
        section.problems.add(section.node_of("registry"), f"registry: {error}")
        return default


def _options(node: "yaml.Node") -> dict[str, str]:
    """Options of the registry. No value is part of an error: it may be a credential."""
    try:
        return yaml_nodes.mapping(node)
    except ValueError:
        raise ValueError("expected names with one value each, such as user: reader") from None


def _certificates(directory: Path, file: str) -> str:
    """The text of a PEM file, which executors may not be able to read."""
    try:
        return (directory / Path(file).expanduser()).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a PEM file"
        raise ValueError(f"{_CA_FILE}: {file}: {reason}") from None


def default_schema(format_name: str) -> str:
    return REGISTRY if format_name in _ALWAYS_WITH_SCHEMA else INFER


def schema_problem(format_name: str, schema: str, registry: RegistryUrl | None) -> str | None:
    """Why a table of the format cannot have this schema, and what to write instead."""
    if format_name == "raw":
        return None if schema == INFER else "raw takes no schema: the value lands as its bytes"
    if format_name == "csv" and (schema in (INFER, REGISTRY) or _is_file(schema)):
        return "csv needs the columns as DDL, in their order: schema: a INT, b STRING"
    if schema.endswith(AVRO_FILE) and format_name != "avro":
        return f"{_takes(format_name)}; an Avro file is for avro"
    if schema.endswith(PROTOBUF_FILE) and format_name != "protobuf":
        return f"{_takes(format_name)}; a descriptor file is for protobuf"
    if format_name in _ALWAYS_WITH_SCHEMA and schema == INFER:
        return f"{_takes(format_name)}: values do not describe themselves"
    if registry is None and format_name in _ALWAYS_WITH_SCHEMA and not _is_file(schema):
        return (
            f"{format_name} needs the writer's schema: schema: {_FILES[format_name]}, or {_EXAMPLE}"
        )
    if registry is None and schema == REGISTRY:
        return f"the file names no schema registry: {_EXAMPLE}"
    return None


def _is_file(schema: str) -> bool:
    return schema.endswith((AVRO_FILE, PROTOBUF_FILE))


def _takes(format_name: str) -> str:
    if format_name == "json":
        return "json takes the columns as DDL, infer, or registry"
    return f"{format_name} takes {_FILES[format_name]}, or registry"
