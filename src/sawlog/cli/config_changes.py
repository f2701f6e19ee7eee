"""Changes of settings: the requested ones, the expected values, and whether a broker has applied
them yet."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sawlog.cli.option_types import parse_settings
from sawlog.client.admin.configs import Change, ConfigEntry
from sawlog.core.config_api import ConfigSource, Operation

Entries = Mapping[str, ConfigEntry]


class ChangedSetting(NamedTuple):
    """A setting before and after a change; None if it has no value there."""

    key: str
    before: ConfigEntry | None
    after: ConfigEntry | None

    @property
    def is_unchanged(self) -> bool:
        if self.before is None or self.after is None:
            return self.before is self.after
        same_source = self.before.source is self.after.source
        return same_source and self.before.value == self.after.value


def requested_changes(*given: tuple[str, Operation, Iterable[str]]) -> list[Change]:
    """Return the changes that options ask for; each option with its operation and its texts
    KEY=VALUE."""
    return [
        Change(key, operation, value)
        for option, operation, texts in given
        for key, value in parse_settings(option, texts).items()
    ]


def expected_value(change: Change, before: ConfigEntry | None) -> str | None:
    """Return the value after the change, as far as the request tells; None for DELETE."""
    if change.operation in (Operation.SET, Operation.DELETE):
        return change.value
    listed = _items(None if before is None else before.value)
    given = _items(change.value)
    if change.operation is Operation.APPEND:
        return ",".join([*listed, *(item for item in given if item not in listed)])
    return ",".join(item for item in listed if item not in given)


def is_applied(
    changes: Iterable[Change], before: Entries, after: Entries, own: ConfigSource
) -> bool:
    """Whether `after` shows all changes: a broker applies them some time after its response.

    The entries need their synonyms: Kafka changes the source of a broker's setting first and its
    value later, and shows the new value as a synonym meanwhile.
    """
    return all(
        _is_applied(change, before.get(change.name), after.get(change.name), own)
        for change in changes
    )


def _is_applied(
    change: Change, old: ConfigEntry | None, new: ConfigEntry | None, own: ConfigSource
) -> bool:
    if own is ConfigSource.BROKER_LOGGER:
        return True  # changed before the response, and there is no other source
    is_own = new is not None and new.source is own
    if is_own is (change.operation is Operation.DELETE):
        return False
    if new is None or new.is_sensitive:
        return True
    if new.synonyms and new.synonyms[0].name == new.name:
        return new.synonyms[0].value == new.value and _is_expected(change, old, new)
    return _is_expected(change, old, new)


def _is_expected(change: Change, old: ConfigEntry | None, new: ConfigEntry) -> bool:
    """Any new value counts, because `010` may be shown as `10`; the value of DELETE is unknown."""
    if change.operation is Operation.DELETE or old is None or new.value != old.value:
        return True
    return new.value == expected_value(change, old)


def changed_settings(
    changes: Iterable[Change], before: Entries, after: Entries
) -> list[ChangedSetting]:
    keys = dict.fromkeys(change.name for change in changes)
    return [ChangedSetting(key, before.get(key), after.get(key)) for key in keys]


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]
