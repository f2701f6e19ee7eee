"""Subscriptions by regular expression (KIP-848, RE2 syntax): resolves them to topics.

As in Kafka, the heartbeat with a new regular expression is answered at once; a separate operation
resolves it, and a later heartbeat gets the partitions. All regular expressions of a group are
resolved together, so that new topics cause one rebalance.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.consumer import consumer_records
from sawlog.groups.consumer.consumer_group import ConsumerGroup, count, uncount
from sawlog.groups.consumer.consumer_member import ResolvedRegex

if TYPE_CHECKING:
    from sawlog.coordinator.coordinator_records import Entry
    from sawlog.groups.consumer.consumer_member import ConsumerMember
    from sawlog.groups.consumer.metadata_hash import MetadataHashes
    from sawlog.groups.context import GroupContext
    from sawlog.groups.group import Group

MIN_INTERVAL_MS = 10_000
"""Minimum interval between two resolutions of a group's regular expressions."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compiled(pattern: str) -> Any:
    """Compile a regular expression; INVALID_REGULAR_EXPRESSION if its syntax is wrong."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        detail = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {detail}.",
        ) from error


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole regular expression matches."""
    matches = compiled(pattern).fullmatch
    return frozenset(name for name in names if matches(name))


class RegexChange(NamedTuple):
    """The effect of a heartbeat on a member's regular expression; `is_resolved`: the topics of the
    new one are known already."""

    changed: bool
    is_resolved: bool


NO_CHANGE = RegexChange(changed=False, is_resolved=False)


class RegexSubscriptions:
    """Invariant: `_topics_version` rises whenever topics are created, also across restarts.

    A regular expression that was resolved with an older version is resolved again.
    """

    def __init__(
        self, context: "GroupContext", groups: "dict[str, Group]", hashes: "MetadataHashes"
    ) -> None:
        self._context = context
        self._groups = groups
        self._hashes = hashes
        self._max_interval_ms: int = context.config["group.consumer.regex.refresh.interval.ms"]
        self._topics_version = 0

    def activate(self) -> None:
        """Mark all regular expressions for resolution: topics may have been created meanwhile."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for resolved in group.resolved.values():
                    self._topics_version = max(self._topics_version, resolved.version + 1)

    def topics_created(self) -> None:
        """Resolve all regular expressions again."""
        self._topics_version += 1

    def subscribe(
        self,
        group: ConsumerGroup,
        old: "ConsumerMember",
        new: "ConsumerMember",
        planned: "list[Entry]",
    ) -> RegexChange:
        """Plan the change of a member's regular expression, and resolve those that are due."""
        change, is_new = NO_CHANGE, False
        if old.regex != new.regex:
            change, is_new = self._replace(group, old, new, planned)
        if is_new or group.regexes:
            self._resolve_if_due(group, old, new, is_new=is_new)
        return change

    def _replace(
        self,
        group: ConsumerGroup,
        old: "ConsumerMember",
        new: "ConsumerMember",
        planned: "list[Entry]",
    ) -> tuple[RegexChange, bool]:
        if old.regex and group.regexes.get(old.regex) == 1:
            planned.append(consumer_records.regex_tombstone(group.id, old.regex))
        if not new.regex:
            return RegexChange(changed=True, is_resolved=bool(old.regex)), False
        if new.regex not in group.regexes:
            compiled(new.regex)
            return RegexChange(changed=True, is_resolved=False), True
        return RegexChange(changed=True, is_resolved=new.regex in group.resolved), False

    def _resolve_if_due(
        self, group: ConsumerGroup, old: "ConsumerMember", new: "ConsumerMember", *, is_new: bool
    ) -> None:
        key = ("regular expressions", group.id)
        if self._context.timers.is_set(key):
            return
        last = next(iter(group.resolved.values()), None)
        age_ms = None if last is None else self._context.clock.now_ms() - last.at_ms
        if age_ms is not None and age_ms <= MIN_INTERVAL_MS:
            return
        wanted = dict(group.regexes)
        uncount(wanted, [old.regex] if old.regex and old.regex in wanted else ())
        count(wanted, [new.regex] if new.regex else ())
        is_due = (
            is_new
            or len(wanted) != len(group.resolved)
            or (last is not None and last.version < self._topics_version)
            or (age_ms is not None and age_ms > self._max_interval_ms)
        )
        if is_due and wanted:
            self._context.timers.set(key, 0, lambda: self._resolve(group.id, sorted(wanted)))

    def _resolve(self, group_id: str, wanted: list[str]) -> Plan[None]:
        """Resolve the regular expressions that are still in use; a change bumps the group epoch."""
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
                uncount(subscribed, () if old is None else old.topics)
                count(subscribed, topics)
            resolved = ResolvedRegex(topics, self._topics_version, now_ms)
            planned.append(consumer_records.regex(group_id, pattern, resolved))
        metadata_hash = self._hashes.of(subscribed, image)
        if bump or metadata_hash != group.metadata_hash:
            planned.append(consumer_records.group_epoch(group_id, group.epoch + 1, metadata_hash))
        return Plan(entries=planned)
