"""Group coordinators: lookups, requests and retries, with peers that fail on purpose."""

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.errors import ConnectionLost, RequestTimedOut, UnsupportedRequest
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.apis import ApiKey, advertised_versions
from sawlog.protocol.messages import consumer_group_describe_response as consumer_answer
from sawlog.protocol.messages import describe_groups_response as classic_answer
from sawlog.protocol.messages.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from sawlog.protocol.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)
from sawlog.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from sawlog.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from sawlog.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sawlog.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from support.client.scripted_broker import NODE_ID, Act, ScriptedBroker

GROUP_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
)
TIMEOUT_MS = 300


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(logs=2) as broker:
        broker.offers |= {api: advertised_versions(api) for api in GROUP_APIS}
        broker.always_reply(ApiKey.FIND_COORDINATOR, lambda request: coordinators(broker, request))
        yield broker


@pytest.fixture
def admin(broker: ScriptedBroker) -> Iterator[GroupAdmin]:
    with Cluster(broker.bootstrap) as cluster:
        yield GroupAdmin(cluster)


@pytest.fixture
def short_timeout_admin(broker: ScriptedBroker) -> Iterator[GroupAdmin]:
    """An admin with a short timeout."""
    limits = {"timeout_ms": TIMEOUT_MS, "request_timeout_ms": TIMEOUT_MS}
    with Cluster(broker.bootstrap, **limits) as cluster:
        yield GroupAdmin(cluster)


def coordinators(broker: ScriptedBroker, request: Any, code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key, NODE_ID, broker.host, broker.port, code)
            for key in request.coordinator_keys
        ]
    )


def offsets(request: Any, code: int = 0) -> OffsetFetchResponse:
    committed = OffsetFetchResponseTopics(
        "logs", partitions=[OffsetFetchResponsePartitions(1, 17, 3)]
    )
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group.group_id, [] if code else [committed], code)
            for group in request.groups
        ]
    )


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
)
def test_find_coordinator_is_retried_until_there_is_one(
    broker: ScriptedBroker, admin: GroupAdmin, code: ErrorCode
) -> None:
    broker.reply(ApiKey.FIND_COORDINATOR, lambda request: coordinators(broker, request, code))
    broker.always_reply(ApiKey.OFFSET_FETCH, offsets)
    found, refusals = admin.committed_offsets(["g"])
    assert refusals == {}
    assert found["g"][partition_of("logs", 1)].offset == 17
    assert len(broker.requests_for(ApiKey.FIND_COORDINATOR)) == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ],
)
def test_an_unavailable_coordinator_is_looked_up_again(
    broker: ScriptedBroker, admin: GroupAdmin, code: ErrorCode
) -> None:
    broker.reply(ApiKey.OFFSET_FETCH, lambda request: offsets(request, code))
    broker.always_reply(ApiKey.OFFSET_FETCH, offsets)
    found, refusals = admin.committed_offsets(["g"])
    assert (list(found), refusals) == (["g"], {})
    assert len(broker.requests_for(ApiKey.FIND_COORDINATOR)) == 2


def test_a_lost_response_is_retried(broker: ScriptedBroker, admin: GroupAdmin) -> None:
    broker.reply(ApiKey.OFFSET_FETCH, Act.CLOSE)
    broker.always_reply(ApiKey.OFFSET_FETCH, offsets)
    assert list(admin.committed_offsets(["g"])[0]) == ["g"]


def test_the_coordinator_is_cached(broker: ScriptedBroker, admin: GroupAdmin) -> None:
    broker.always_reply(ApiKey.OFFSET_FETCH, offsets)
    admin.committed_offsets(["a", "b"])
    admin.committed_offsets(["b", "a"])
    assert [each.coordinator_keys for each in broker.requests_for(ApiKey.FIND_COORDINATOR)] == [
        ["a", "b"]
    ]


def test_errors_are_by_group_after_the_timeout(
    broker: ScriptedBroker, short_timeout_admin: GroupAdmin
) -> None:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.always_reply(
        ApiKey.FIND_COORDINATOR, lambda request: coordinators(broker, request, code)
    )
    found, refusals = short_timeout_admin.describe_groups(["a", "b"])
    assert found == {}
    assert {name: error.code for name, error in refusals.items()} == {"a": code, "b": code}
    assert "'a' had no coordinator" in refusals["a"].message


def test_an_error_of_one_group_does_not_affect_the_others(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    def answer(request: Any) -> OffsetFetchResponse:
        groups = [
            OffsetFetchResponseGroup(
                each.group_id, error_code=30 if each.group_id == "secret" else 0
            )
            for each in request.groups
        ]
        return OffsetFetchResponse(groups=groups)

    broker.always_reply(ApiKey.OFFSET_FETCH, answer)
    found, refusals = admin.committed_offsets(["b", "secret", "a"])
    assert list(found) == ["b", "a"]
    assert refusals["secret"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_many_groups_are_split_into_several_requests(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    broker.always_reply(ApiKey.OFFSET_FETCH, offsets)
    names = [f"g{number}" for number in range(250)]
    assert list(admin.committed_offsets(names)[0]) == names
    assert [len(each.groups) for each in broker.requests_for(ApiKey.OFFSET_FETCH)] == [100, 100, 50]


@pytest.mark.parametrize(
    ("act", "error"), [(Act.CLOSE, ConnectionLost), (Act.SILENCE, RequestTimedOut)]
)
def test_a_deletion_is_not_sent_twice(
    broker: ScriptedBroker, short_timeout_admin: GroupAdmin, act: Act, error: type[Exception]
) -> None:
    broker.always_reply(ApiKey.DELETE_GROUPS, act)
    with pytest.raises(error):
        short_timeout_admin.delete_groups(["g"])
    assert len(broker.requests_for(ApiKey.DELETE_GROUPS)) == 1


def test_a_deletion_that_was_not_sent_is_retried(broker: ScriptedBroker, admin: GroupAdmin) -> None:
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE):
        broker.reply(
            ApiKey.DELETE_GROUPS, DeleteGroupsResponse(results=[DeletableGroupResult("g", code)])
        )
    assert admin.delete_groups(["g"]) == {}


def commit_answer(*codes: int) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("logs", partitions=partitions)])


def test_a_commit_returns_errors_by_partition(broker: ScriptedBroker, admin: GroupAdmin) -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.reply(ApiKey.OFFSET_COMMIT, commit_answer(loading, loading), commit_answer(0, unknown))
    refused = admin.commit_offsets("g", {partition_of("logs", 0): 5, partition_of("logs", 1): 6})
    assert {str(each): error.code for each, error in refused.items()} == {"logs-1": unknown}
    request = broker.requests_for(ApiKey.OFFSET_COMMIT)[-1]
    assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
    assert [each.committed_offset for each in request.topics[0].partitions] == [5, 6]


def test_a_commit_without_a_coordinator_fails_as_a_whole(
    broker: ScriptedBroker, short_timeout_admin: GroupAdmin
) -> None:
    broker.always_reply(ApiKey.OFFSET_COMMIT, commit_answer(ErrorCode.NOT_COORDINATOR))
    with pytest.raises(KafkaError) as raised:
        short_timeout_admin.commit_offsets("g", {partition_of("logs", 0): 5})
    assert raised.value.code is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    "data", [b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x01\x7f\xff\xff\xff", bytes(range(256))]
)
def test_a_malformed_assignment_is_described_as_none(
    broker: ScriptedBroker, admin: GroupAdmin, data: bytes
) -> None:
    describe_classic(broker, protocol_type="consumer", assignment=data)
    (member,) = admin.describe_groups(["g"])[0]["g"].members
    assert (member.client_id, member.assigned) == ("client", None)


def test_an_assignment_of_a_later_version_can_be_read(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    logs_1 = b"\x00\x00\x00\x01\x00\x04logs\x00\x00\x00\x01\x00\x00\x00\x01"
    later = b"\x00\x09" + logs_1 + b"\xff\xff\xff\xff" + b"and more"
    describe_classic(broker, protocol_type="consumer", assignment=later)
    (member,) = admin.describe_groups(["g"])[0]["g"].members
    assert member.assigned == (partition_of("logs", 1),)


def test_assignments_of_other_protocol_types_are_not_decoded(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    describe_classic(broker, protocol_type="connect", assignment=b"\x00\x00")
    described = admin.describe_groups(["g"])[0]["g"]
    assert (described.protocol_type, described.members[0].assigned) == ("connect", None)


def describe_classic(broker: ScriptedBroker, protocol_type: str, assignment: bytes) -> None:
    no_consumer = consumer_answer.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, None, "g")
    broker.always_reply(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        consumer_answer.ConsumerGroupDescribeResponse(groups=[no_consumer]),
    )
    member = classic_answer.DescribedGroupMember(
        "m", None, "client", "/127.0.0.1", member_assignment=assignment
    )
    described = classic_answer.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type=protocol_type, members=[member]
    )
    broker.always_reply(
        ApiKey.DESCRIBE_GROUPS, classic_answer.DescribeGroupsResponse(groups=[described])
    )


def test_an_older_broker_has_classic_groups_only_and_calls_a_missing_one_dead(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    del broker.offers[ApiKey.CONSUMER_GROUP_DESCRIBE]
    broker.offers[ApiKey.DESCRIBE_GROUPS] = (0, 5)
    dead = classic_answer.DescribedGroup(group_id="g", group_state="Dead")
    broker.always_reply(
        ApiKey.DESCRIBE_GROUPS, classic_answer.DescribeGroupsResponse(groups=[dead])
    )
    found, refusals = admin.describe_groups(["g"])
    assert (found, refusals["g"].code) == ({}, ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_broker_that_is_too_old_is_an_error(broker: ScriptedBroker, admin: GroupAdmin) -> None:
    broker.offers |= {ApiKey.LIST_GROUPS: (0, 4), ApiKey.FIND_COORDINATOR: (0, 3)}
    listed = ListGroupsResponse(groups=[ListedGroup("g", "consumer", "Stable")])
    broker.always_reply(ApiKey.LIST_GROUPS, listed)
    assert [(each.id, each.type) for each in admin.list_groups(states=["Stable"])] == [("g", "")]
    with pytest.raises(UnsupportedRequest, match="LIST_GROUPS up to version 4, and 5 is needed"):
        admin.list_groups(types=["classic"])
    with pytest.raises(
        UnsupportedRequest, match="FIND_COORDINATOR up to version 3, and 4 is needed"
    ):
        admin.describe_groups(["g"])


def test_a_loading_broker_is_asked_again_for_its_groups(
    broker: ScriptedBroker, admin: GroupAdmin
) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.reply(ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=code))
    broker.always_reply(ApiKey.LIST_GROUPS, ListGroupsResponse(groups=[ListedGroup("g")]))
    assert [each.id for each in admin.list_groups()] == ["g"]


def test_every_broker_is_asked_for_its_own_groups(broker: ScriptedBroker) -> None:
    with ScriptedBroker() as second:
        second.offers = broker.offers
        nodes = {NODE_ID: broker, NODE_ID + 1: second}
        metadata = MetadataResponse(
            brokers=[MetadataResponseBroker(node, at.host, at.port) for node, at in nodes.items()]
        )
        places = [Coordinator(f"of-{node}", node, at.host, at.port) for node, at in nodes.items()]
        for node, at in nodes.items():
            at.always_reply(ApiKey.METADATA, metadata)
            at.always_reply(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=places))
            at.always_reply(ApiKey.OFFSET_FETCH, offsets)
            listed = [ListedGroup("moving"), ListedGroup(f"of-{node}")]
            at.always_reply(ApiKey.LIST_GROUPS, ListGroupsResponse(groups=listed))
        with Cluster(broker.bootstrap) as cluster:
            admin = GroupAdmin(cluster)
            names = ["moving", f"of-{NODE_ID}", f"of-{NODE_ID + 1}"]
            assert [each.id for each in admin.list_groups()] == names
            assert list(admin.committed_offsets(names[1:])[0]) == names[1:]
        for node, at in nodes.items():
            (asked,) = at.requests_for(ApiKey.OFFSET_FETCH)
            assert [each.group_id for each in asked.groups] == [f"of-{node}"]
