"""Requests to ZooKeeper: their paths, ACLs and sizes, as kazoo writes them."""

import logging
from typing import Any

import pytest
from kazoo.client import TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)

from sawlog.core.store import (
    BadArguments,
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    Operation,
    SetData,
    StoreError,
)
from sawlog.server.kazoo_handler import PostedResult
from sawlog.server.zookeeper_requests import ZooKeeperRequests, store_error
from sawlog.server.zookeeper_store import digest_acl

MULTI_END = 9  # the header that ends a multi
OPERATIONS: list[Operation] = [
    Create("/a", b"data"),
    Create("/ä/b", ephemeral=True),
    SetData("/a", b"more", 3),
    Check("/a", 4),
    Delete("/a/b", 5),
]


class Client:
    """Keeps the last transaction that kazoo would send."""

    chroot = ""
    default_acl = None
    logger = logging.getLogger("test")

    def __init__(self) -> None:
        self.handler = self
        self.request: Any = None

    def transaction(self) -> TransactionRequest:
        return TransactionRequest(self)

    def async_result(self) -> PostedResult:
        return PostedResult(lambda *_: None)

    def _call(self, request: Any, _: PostedResult) -> None:
        self.request = request


@pytest.mark.parametrize("credentials", [None, "sawlog:secret"])
@pytest.mark.parametrize("chroot", ["", "/x/ü"])
def test_the_size_of_a_multi_is_known_before_it_is_sent(
    chroot: str, credentials: str | None
) -> None:
    client, requests = Client(), ZooKeeperRequests(chroot, digest_acl(credentials))
    requests.multi(client, OPERATIONS)
    assert len(client.request.serialize()) == requests.size(OPERATIONS) + MULTI_END
    assert [operation.path for operation in client.request.operations] == [
        chroot + operation.path for operation in OPERATIONS
    ]


def test_an_invalid_path_in_a_multi_sends_nothing() -> None:
    client = Client()
    with pytest.raises(BadArguments):
        ZooKeeperRequests("", None).multi(client, [Create("/a"), Create("/b/")])
    assert client.request is None


def test_a_failed_multi_reports_the_operation_that_failed() -> None:
    _, read = ZooKeeperRequests("/x", None).multi(Client(), OPERATIONS[:3])
    error = read([RolledBackError(), BadVersionError(), RuntimeInconsistency()])
    assert isinstance(error, BadVersion)
    assert error.path == "/ä/b"


def test_an_error_without_a_class_of_its_own_is_named() -> None:
    assert isinstance(store_error("/a", ConnectionLoss()), ConnectionLost)
    error = store_error("/a", ZookeeperError("odd"))
    assert (type(error), str(error)) == (StoreError, "/a: ZooKeeper answered ZookeeperError odd")
