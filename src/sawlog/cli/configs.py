"""`sawlog configs`: show, set and unset settings of topics, brokers, groups and loggers."""

import html
import re
import shutil
import sys
import textwrap
import time
from typing import Any

import click

from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.config_changes import (
    ChangedSetting,
    changed_settings,
    is_applied,
    requested_changes,
)
from sawlog.cli.config_resources import (
    ConfigResource,
    ConfigResourceType,
    check_known,
    describe,
    find_resource,
    known_settings,
)
from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import NAME, TEXT, json_option
from sawlog.cli.output import counted, note, print_json, print_lines, print_table
from sawlog.cli.units import show_duration, show_size
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.configs import Change, ConfigEntry
from sawlog.client.net.cluster import Cluster
from sawlog.core.config_api import ConfigSource, Operation
from sawlog.core.config_dynamic import CLUSTER_WIDE
from sawlog.core.config_values import ConfigType

_APPLY_TIMEOUT_MS = 2_000  # until all brokers know a change; Kafka takes some milliseconds
_APPLY_CHECK_S = 0.02
_LONGEST_MS = 100 * 365 * 86_400_000  # longer times mean "never"
_WIDEST_TEXT = 100
_TAG = re.compile(r"<[^>]*>")  # Kafka's documentation is HTML
_SIZE_ENDINGS = (".bytes", ".buffer.size", ".max.size")

_resource = (
    click.argument("kind", metavar="TYPE", type=ConfigResourceType()),
    click.argument("name", type=NAME),
)
_NAMES = (
    "TYPE NAME is one of: topic NAME; broker ID; broker all, for the settings of all brokers; group"
    " NAME; broker-logger ID."
)
_validate_only = click.option(
    "--validate-only", is_flag=True, help="Check the request without changing anything."
)


def _with_resource(command: Any) -> Any:
    for argument in reversed(_resource):
        command = argument(command)
    return command


@click.group(epilog=_NAMES)
def configs() -> None:
    """Show, set and unset settings of topics, brokers, groups and broker loggers."""


@configs.command(epilog=_NAMES)
@_with_resource
@click.argument("keys", metavar="[KEY]...", nargs=-1, type=TEXT)
@click.option("-a", "--all", "with_defaults", is_flag=True, help="Include default values.")
@click.option("-d", "--doc", "with_doc", is_flag=True, help="Include the documentation.")
@json_option
@with_cluster
def get(
    kind: str,
    name: str,
    keys: tuple[str, ...],
    with_defaults: bool,
    with_doc: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Show settings that are not defaults, or those in KEY.

    The source tells where a value comes from: the topic (or broker, group), all brokers, the
    broker's configuration file, or the default.
    """
    admin = Admin(cluster)
    where = find_resource(admin, kind, name)
    entries = describe(admin, where, synonyms=as_json, documentation=with_doc)
    wanted = list(dict.fromkeys(keys))
    if keys:
        check_known(where, wanted, known_settings(admin, where, entries), to_change=False)
    else:
        wanted = [key for key, entry in entries.items() if with_defaults or not entry.is_default]
    if as_json:
        found = [_json(entries[key], with_doc) for key in wanted if key in entries]
        print_json({"type": kind, "name": name, "configs": found})
    elif with_doc:
        print_lines(line for key in wanted for line in _documented(key, entries.get(key)))
    elif wanted:
        _print_settings(wanted, entries)
    for key in wanted:
        if key not in entries:
            note(f"{where}: {key} is not set")
    if not wanted:
        hint = "; --all shows them" if entries else ""
        note(f"{where}: no settings other than defaults{hint}")


@configs.command("set", epilog=_NAMES)
@_with_resource
@click.argument("settings", metavar="[KEY=VALUE]...", nargs=-1, type=TEXT)
@click.option("--append", type=TEXT, multiple=True, metavar="KEY=VALUE", help="Add to a list.")
@click.option(
    "--subtract", type=TEXT, multiple=True, metavar="KEY=VALUE", help="Remove from a list."
)
@_validate_only
@json_option
@with_cluster
def set_settings(
    kind: str,
    name: str,
    settings: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    validate_only: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Set settings, for example retention.ms=86400000.

    The broker checks all values first; if one is refused, none is set.
    """
    changes = requested_changes(
        ("KEY=VALUE", Operation.SET, settings),
        ("--append", Operation.APPEND, append),
        ("--subtract", Operation.SUBTRACT, subtract),
    )
    if not changes:
        raise click.UsageError("nothing to set: give KEY=VALUE, --append or --subtract")
    admin = Admin(cluster)
    where = find_resource(admin, kind, name)
    _Alteration(cluster, where, describe(admin, where)).make(changes, validate_only, as_json)


@configs.command(epilog=_NAMES)
@_with_resource
@click.argument("keys", metavar="[KEY]...", nargs=-1, type=TEXT)
@click.option("--all", "everything", is_flag=True, help="All settings that are set here.")
@_validate_only
@json_option
@with_cluster
def unset(
    kind: str,
    name: str,
    keys: tuple[str, ...],
    everything: bool,
    validate_only: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Unset settings.

    The next source counts again: all brokers, then the broker's configuration file, then the
    default.
    """
    if bool(keys) == everything:
        raise click.UsageError("give KEY or --all, not both" if keys else "give KEY or --all")
    admin = Admin(cluster)
    where = find_resource(admin, kind, name)
    entries = describe(admin, where)
    own = [key for key, entry in entries.items() if entry.source is where.own_source]
    if everything and where.own_source is ConfigSource.ALL_BROKERS and CLUSTER_WIDE in own:
        own.remove(CLUSTER_WIDE)
        note(f"{where}: {CLUSTER_WIDE} stays, because it always has a value for all brokers")
    changes = [Change(key, Operation.DELETE) for key in (own if everything else keys)]
    if not changes:
        note(f"{where}: no settings to unset")
        return
    _Alteration(cluster, where, entries).make(changes, validate_only, as_json)


class _Alteration:
    """Changes settings of one resource, and shows them before and after."""

    def __init__(
        self, cluster: Cluster, where: ConfigResource, before: dict[str, ConfigEntry]
    ) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster)
        self._where = where
        self._before = before

    def make(self, changes: list[Change], validate_only: bool, as_json: bool) -> None:
        """Make the changes; exits with FAILED if they are refused."""
        where = self._where
        known = known_settings(self._admin, where, self._before)
        check_known(where, [change.name for change in changes], known, to_change=True)
        refused = self._admin.alter_configs({where.resource: changes}, validate_only=validate_only)
        report_each((), {str(where): error for error in refused.values()}, "")
        count = counted(len(changes), "setting")
        if validate_only:
            note(f"{where}: {count} could be changed")
            return
        changed = changed_settings(changes, self._before, self._applied(changes))
        if as_json:
            found = [_change_json(each) for each in changed]
            print_json({"type": where.kind, "name": where.name, "changes": found})
        else:
            _print_changes(changed)
        _note_changes(where, changed)

    def _applied(self, changes: list[Change]) -> dict[str, ConfigEntry]:
        """Describe the resource until the changes show, or for a short time."""
        deadline = self._cluster.deadline(_APPLY_TIMEOUT_MS)
        while True:
            after = describe(self._admin, self._where, synonyms=True)
            shows = is_applied(changes, self._before, after, self._where.own_source)
            if shows or deadline.has_passed:
                return after
            time.sleep(_APPLY_CHECK_S)


def _note_changes(where: ConfigResource, changed: list[ChangedSetting]) -> None:
    same = [each.key for each in changed if each.is_unchanged]
    if len(same) == len(changed):
        note(f"{where}: nothing changed")
        return
    unchanged = f"; unchanged: {', '.join(same)}" if same else ""
    note(f"{where}: {counted(len(changed) - len(same), 'setting')} changed{unchanged}")


def _print_settings(keys: list[str], entries: dict[str, ConfigEntry]) -> None:
    rows = [
        (key, _value(entry), _source(entry), _marks(entry))
        for key in keys
        for entry in (entries.get(key),)
    ]
    columns = ("setting", "value", "source", "")
    has_marks = any(row[-1] for row in rows)
    width = len(columns) if has_marks else len(columns) - 1
    defaults = [row for row, key in enumerate(keys) if key in entries and entries[key].is_default]
    cut = [row[:width] for row in rows]
    print_table(columns[:width], cut, shortened="value", dimmed=defaults)


def _print_changes(changed: list[ChangedSetting]) -> None:
    rows = [
        (each.key, _value(each.before), "->", _value(each.after), _source(each.after))
        for each in changed
    ]
    print_table(("setting", "old", "", "new", "source"), rows)


def _documented(key: str, entry: ConfigEntry | None) -> list[str]:
    if entry is None:
        return []
    width = min(shutil.get_terminal_size((_WIDEST_TEXT, 24)).columns, _WIDEST_TEXT)
    text = html.unescape(_TAG.sub("", entry.documentation or "(no documentation)"))
    head = f"{key}={_value(entry) or ''}  {_source(entry)} {_marks(entry)}".rstrip()
    if sys.stdout.isatty():
        head = click.style(head, bold=True)
    indent = "  "
    body = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    return [head, *body]


def _value(entry: ConfigEntry | None) -> str | None:
    """Return the value; on a terminal, long times and sizes also in larger units."""
    if entry is None:
        return None
    if entry.is_sensitive:
        return "(hidden)"
    if entry.value == "":
        return '""'
    meaning = readable(entry) if sys.stdout.isatty() else None
    return entry.value if meaning is None else f"{entry.value} ({meaning})"


def readable(entry: ConfigEntry) -> str | None:
    """Return a time or a size in larger units, for example `7d`; None if that says no more."""
    if entry.type not in (ConfigType.INT, ConfigType.LONG) or entry.value is None:
        return None
    number = int(entry.value)
    if entry.name.endswith(".ms") and 1_000 <= number < _LONGEST_MS:
        return show_duration(number / 1_000)
    if entry.name.endswith(_SIZE_ENDINGS) and 1_024 <= number < 2**60:
        return show_size(number)
    return None


def _source(entry: ConfigEntry | None) -> str:
    return "-" if entry is None else entry.source.name.lower().replace("_", "-")


def _marks(entry: ConfigEntry | None) -> str:
    return "read-only" if entry is not None and entry.is_read_only else ""


def _json(entry: ConfigEntry, with_doc: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": entry.name,
        "value": entry.value,
        "source": _source_name(entry.source),
        "default": entry.is_default,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "type": entry.type.name.lower(),
        "synonyms": [
            {
                "key": synonym.name,
                "value": synonym.value,
                "source": _source_name(synonym.source),
            }
            for synonym in entry.synonyms
        ],
    }
    if with_doc:
        found["documentation"] = entry.documentation
    return found


def _change_json(changed: ChangedSetting) -> dict[str, Any]:
    before, after = changed.before, changed.after
    return {
        "key": changed.key,
        "old": None if before is None else before.value,
        "old_source": None if before is None else _source_name(before.source),
        "new": None if after is None else after.value,
        "new_source": None if after is None else _source_name(after.source),
    }


def _source_name(source: ConfigSource) -> str:
    return source.name.lower()
