"""ListGroups, DescribeGroups and DeleteGroups for the groups of one partition."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.delete_groups_response import DeletableGroupResult
from sawlog.protocol.messages.describe_groups_response import DescribedGroup
from sawlog.protocol.messages.list_groups_response import ListedGroup

if TYPE_CHECKING:
    from sawlog.groups.group import Group
    from sawlog.groups.offsets.offset_table import OffsetTable

DEAD = "Dead"
"""The state of a group that does not exist."""

FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6


class GroupAdmin:
    def __init__(self, groups: "dict[str, Group]", offsets: "OffsetTable") -> None:
        self._groups = groups
        self._offsets = offsets

    def list(self, states: Collection[str], types: Collection[str]) -> Plan[list[ListedGroup]]:
        """List the groups in one of these states and of one of these types, both in lower case; an
        empty collection means all."""
        return Plan(
            [
                ListedGroup(group.id, group.protocol_type, group.state_name, kind)
                for group in self._groups.values()
                if ((kind := group.type.lower()) in types or not types)
                and (not states or group.state_name.lower() in states)
            ]
        )

    def describe(self, group_id: str, api_version: int) -> Plan[DescribedGroup]:
        """Describe a classic group; a missing one is dead, and an error from version 6 on."""
        group = self._groups.get(group_id)
        described = None if group is None else group.describe()
        if described is None:
            described = DescribedGroup(group_id=group_id, group_state=DEAD)
            if api_version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
                reason = "not found" if group is None else "is not a classic group"
                error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
                described.error_code = int(error.code)
                described.error_message = error.message
        return Plan(described)

    def delete(self, group_id: str) -> Plan[DeletableGroupResult]:
        """Delete an empty group with all its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_delete()
        entries = [*self._offsets.tombstones(group_id), *group.tombstones()]
        return Plan(DeletableGroupResult(group_id), entries)
