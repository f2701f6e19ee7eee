"""The table of APIs matches Apache Kafka 4.4."""

import subprocess
import sys

import pytest

from sawlog.protocol.apis import (
    ApiKey,
    advertised_versions,
    has_unstable_version,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.messages.index import VERSIONS

REMOVED = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}


@pytest.mark.parametrize(
    ("api", "versions"),
    [
        (ApiKey.PRODUCE, (3, 13)),
        (ApiKey.FETCH, (4, 18)),
        (ApiKey.LIST_OFFSETS, (1, 11)),
        (ApiKey.METADATA, (0, 13)),
        (ApiKey.API_VERSIONS, (0, 5)),
        (ApiKey.DELETE_GROUPS, (0, 3)),
    ],
)
def test_versions_are_kafkas(api: ApiKey, versions: tuple[int, int]) -> None:
    assert valid_versions(api) == versions


def test_produce_is_advertised_from_0() -> None:
    assert advertised_versions(ApiKey.PRODUCE) == (0, 13)
    assert advertised_versions(ApiKey.FETCH) == (4, 18)


def test_an_unstable_version_is_not_valid() -> None:
    assert [api for api in ApiKey if has_unstable_version(api)] == [ApiKey.INIT_PRODUCER_ID]
    assert valid_versions(ApiKey.INIT_PRODUCER_ID) == (0, 5)


@pytest.mark.parametrize("api", ApiKey, ids=lambda api: api.name)
def test_every_api_has_a_request_and_a_response(api: ApiKey) -> None:
    if api in REMOVED:
        with pytest.raises(LookupError, match=api.name):
            request_class(api)
        return
    for cls, kind in ((request_class(api), "request"), (response_class(api), "response")):
        assert cls.SCHEMA.api_key == api
        assert cls.SCHEMA.kind == kind
        assert (cls.SCHEMA.versions, cls.SCHEMA.flexible) == VERSIONS[api][:2]


@pytest.mark.parametrize(
    ("api", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 1, 0),
    ],
)
def test_header_versions_follow_the_flexible_versions_except_for_api_versions(
    api: ApiKey, version: int, request_header: int, response_header: int
) -> None:
    assert request_header_version(api, version) == request_header
    assert response_header_version(api, version) == response_header


def test_listing_the_apis_imports_no_message() -> None:
    program = (
        "import sys, sawlog.protocol.apis, sawlog.protocol.headers;"
        "print([name for name in sys.modules if name.startswith('sawlog.protocol.messages.')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "['sawlog.protocol.messages.index']", run.stderr
