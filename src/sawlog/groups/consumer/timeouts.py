"""The timeouts of the members of consumer groups: session, revocation, join and sync."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sawlog.groups.consumer.consumer_member import UNREVOKED, ConsumerMember

if TYPE_CHECKING:
    from sawlog.coordinator.plan import Plan
    from sawlog.groups.context import GroupContext

OnExpired = Callable[[str, str, int | None], "Plan[None]"]
"""(group, member, epoch): removes the member; if an epoch is given, only if the member is still in
that epoch and has not finished revoking."""


class MemberTimeouts:
    def __init__(self, context: "GroupContext", on_expired: OnExpired) -> None:
        self._context = context
        self._timers = context.timers
        self._on_expired = on_expired

    def renew_session(self, group_id: str, member_id: str, session_ms: int | None = None) -> None:
        """Restart the session timeout, by default that of the group."""
        if session_ms is None:
            session_ms = self._context.group_setting(group_id, "consumer.session.timeout.ms")
        self._timers.set(
            ("session", group_id, member_id),
            session_ms,
            partial(self._on_expired, group_id, member_id, None),
        )

    def set_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the revocation timeout of a member that must revoke partitions, else cancel it."""
        key = ("revocation", group_id, member.id)
        if member.state is UNREVOKED:
            operation = partial(self._on_expired, group_id, member.id, member.epoch)
            self._timers.set(key, member.rebalance_timeout_ms, operation)
        else:
            self._timers.cancel(key)

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the join timeout of a classic member that was told to rejoin, unless it runs."""
        key = ("join", group_id, member.id)
        if not self._timers.is_set(key):
            operation = partial(self._on_expired, group_id, member.id, None)
            self._timers.set(key, member.rebalance_timeout_ms, operation)

    def await_sync(self, group_id: str, member: ConsumerMember) -> None:
        """Start the sync timeout of a classic member that has joined."""
        self._timers.cancel(("join", group_id, member.id))
        operation = partial(self._on_expired, group_id, member.id, None)
        self._timers.set(("sync", group_id, member.id), member.rebalance_timeout_ms, operation)

    def cancel_sync(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("sync", group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "revocation", "join", "sync"):
            self._timers.cancel((kind, group_id, member_id))
