"""Subscriptions by pattern (KIP-848, RE2 syntax): which topics they mean, and when to look again.

Matching is put off to a moment of its own, as Kafka does: the heartbeat that brings a new pattern
is answered at once, and the topics come with a later one. All patterns of a group are matched
together, so that new topics make one rebalance.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_group import ConsumerGroup, count, discount
from sawlog.groups.consumer.consumer_member import ResolvedRegex

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.consumer.consumer_member import Member
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group

LEAST_INTERVAL_MS = 10_000
"""Between two times of matching a group's patterns."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compiled(pattern: str) -> Any:
    """INVALID_REGULAR_EXPRESSION where it is none."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {words}.",
        ) from error


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that a pattern matches as a whole."""
    matches = compiled(pattern).fullmatch
    return frozenset(name for name in names if matches(name))


class Change(NamedTuple):
    """What a heartbeat did to a member's pattern; `is_resolved`: its topics are known already."""

    changed: bool
    is_resolved: bool


NO_CHANGE = Change(changed=False, is_resolved=False)


class Patterns:
    """`topics_version` rises whenever topics are made, also over restarts; a pattern is matched
    again when it was last matched in an older version."""

    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", hashes: "MetadataHashes"
    ) -> None:
        self._context = context
        self._groups = groups
        self._hashes = hashes
        self._most_interval_ms: int = context.config["group.consumer.regex.refresh.interval.ms"]
        self.topics_version = 0

    def activate(self) -> None:
        """Topics may have been made since the patterns were matched: all are out of date."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for resolved in group.resolved.values():
                    self.topics_version = max(self.topics_version, resolved.version + 1)

    def subscribe(
        self, group: ConsumerGroup, old: "Member", new: "Member", planned: "list[Entry]"
    ) -> Change:
        """A heartbeat of a group that has patterns, or brings one."""
        change, is_new = NO_CHANGE, False
        if old.regex != new.regex:
            change, is_new = self._replace(group, old, new, planned)
        if is_new or group.regexes:
            self._look_again(group, old, new, is_new=is_new)
        return change

    def _replace(
        self, group: ConsumerGroup, old: "Member", new: "Member", planned: "list[Entry]"
    ) -> tuple[Change, bool]:
        if old.regex and group.regexes.get(old.regex) == 1:
            planned.append(consumer_records.no_regex(group.id, old.regex))
        if not new.regex:
            return Change(changed=True, is_resolved=bool(old.regex)), False
        if new.regex not in group.regexes:
            compiled(new.regex)
            return Change(changed=True, is_resolved=False), True
        return Change(changed=True, is_resolved=new.regex in group.resolved), False

    def _look_again(
        self, group: ConsumerGroup, old: "Member", new: "Member", *, is_new: bool
    ) -> None:
        key = ("patterns", group.id)
        if self._context.timers.is_set(key):
            return
        last = next(iter(group.resolved.values()), None)
        age_ms = None if last is None else self._context.clock.now_ms() - last.at_ms
        if age_ms is not None and age_ms <= LEAST_INTERVAL_MS:
            return
        wanted = dict(group.regexes)
        discount(wanted, [old.regex] if old.regex and old.regex in wanted else ())
        count(wanted, [new.regex] if new.regex else ())
        is_due = (
            is_new
            or len(wanted) != len(group.resolved)
            or (last is not None and last.version < self.topics_version)
            or (age_ms is not None and age_ms > self._most_interval_ms)
        )
        if is_due and wanted:
            self._context.timers.set(key, 0, lambda: self._resolve(group.id, sorted(wanted)))

    def _resolve(self, group_id: str, wanted: list[str]) -> Plan:
        """Matches the patterns that are still wanted; a change makes a new epoch of the group."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Plan()
        image, now_ms = self._context.image, self._context.clock.now_ms()
        names = list(image.topics)
        subscribed = dict(group.subscribed)
        planned: list[Entry] = []
        bump = False
        for pattern in wanted:
            if pattern not in group.regexes:
                continue
            old = group.resolved.get(pattern)
            topics = matching(pattern, names)
            if topics != (frozenset() if old is None else old.topics):
                bump = True
                discount(subscribed, () if old is None else old.topics)
                count(subscribed, topics)
            resolved = ResolvedRegex(topics, self.topics_version, now_ms)
            planned.append(consumer_records.regex(group_id, pattern, resolved))
        metadata_hash = self._hashes.of(subscribed, image)
        if bump or metadata_hash != group.metadata_hash:
            planned.append(consumer_records.group_epoch(group_id, group.epoch + 1, metadata_hash))
        return Plan(entries=planned)
