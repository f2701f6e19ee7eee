"""The server-side assignors that a member may choose by name: `uniform` and `range`."""

from collections.abc import Mapping
from types import MappingProxyType

from sawlog.core.ids import TopicId
from sawlog.groups.consumer.assignor import Assignment, Assignor, MemberSpecs, check_topics
from sawlog.groups.consumer.uniform_assignor import uniform


def range_(members: MemberSpecs, partitions: Mapping[TopicId, int]) -> dict[str, Assignment]:
    """Assign to each subscriber of a topic one contiguous range of partitions, and the same range
    of all topics that have the same size and the same subscribers.

    Static members come first, by instance id: they keep their ranges while dynamic members come and
    go, and when they rejoin with a new member id.
    """
    check_topics(members, partitions)

    def sort_key(member: str) -> tuple[bool, str, str]:
        instance_id = members[member].instance_id
        return instance_id is None, instance_id or "", member

    subscribers: dict[TopicId, list[str]] = {}
    for member in sorted(members, key=sort_key):
        for topic in sorted(members[member].topics):
            subscribers.setdefault(topic, []).append(member)
    assignments: dict[str, Assignment] = {member: {} for member in members}
    for topic, readers in subscribers.items():
        size, longer = divmod(partitions[topic], len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + size + (position < longer)
            if start == end:
                break
            assignments[member][topic] = frozenset(range(start, end))
            start = end
    return assignments


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": uniform, "range": range_})
