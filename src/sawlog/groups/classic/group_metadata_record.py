"""GroupMetadata records: all that a restart must know of a classic group.

A group is written when the leader's assignment comes, when its last member has gone and when a
static member takes a new id; not when somebody joins. So the record of a group that is stable or
empty is the group itself.
"""

from sawlog.coordinator.coordinator_records import Entry
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import Member, Protocol
from sawlog.groups.classic.classic_states import STABLE
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

VERSION = 3
"""The version of the value that Kafka 4.3 writes."""

_NO_TIME = -1


def entry_of(group: ClassicGroup) -> Entry:
    protocol = group.protocol
    members = [
        MemberMetadata(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(protocol),
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=protocol,
        leader=group.leader,
        current_state_timestamp=_NO_TIME if group.since_ms is None else group.since_ms,
        members=members,
    )
    return Entry(GroupMetadataKey(group.id), value, VERSION)


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as it was written; all that is soft begins anew."""
    since_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, None if since_ms == _NO_TIME else since_ms)
    group.generation = value.generation
    group.protocol = value.protocol
    group.protocol_type = value.protocol_type
    for member in value.members:
        group.add(_member_of(member, value.protocol or ""), value.protocol_type)
    if value.leader in group.members:
        group.leader = value.leader
    if group.members:
        group.state = STABLE
    group.read_subscriptions()
    return group


def _member_of(written: MemberMetadata, protocol: str) -> Member:
    """Version 0 has no rebalance time-out: it was the session time-out then."""
    rebalance_ms = written.rebalance_timeout
    return Member(
        written.member_id,
        written.group_instance_id,
        written.client_id,
        written.client_host,
        written.session_timeout if rebalance_ms == -1 else rebalance_ms,
        written.session_timeout,
        (Protocol(protocol, written.subscription),),
        written.assignment,
    )
