"""Where a classic group becomes a consumer group (KIP-848, `group.consumer.migration.policy`).

The one place for it. Until members of both protocols can share a group, a classic group with
members stays what it is.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from sawlog.coordinator.records import Entry
    from sawlog.groups.consumer.group import ConsumerGroup
    from sawlog.groups.group import Group


def upgraded(group: "Group") -> "tuple[ConsumerGroup, list[Entry]]":
    """The group that takes the place of a classic one with members, and the records of that;
    GROUP_ID_NOT_FOUND where it may not."""
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.id} uses the classic protocol and cannot change it while it has members.",
    )
