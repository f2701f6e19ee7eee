"""Config resources of brokers that list other ones than this client knows."""

import pytest

from sawlog.client import Admin, ErrorCode, KafkaError, Resource, ResourceType
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)
from support.client.scripted_broker import ScriptedBroker


def listing(*resources: tuple[str, int]) -> ListConfigResourcesResponse:
    found = [ConfigResource(resource_name=name, resource_type=kind) for name, kind in resources]
    return ListConfigResourcesResponse(config_resources=found)


def test_a_broker_of_the_first_version_lists_client_metrics_only() -> None:
    with ScriptedBroker() as broker, Admin(f"{broker.host}:{broker.port}") as admin:
        broker.offers[ApiKey.LIST_CONFIG_RESOURCES] = (0, 0)
        broker.reply(ApiKey.LIST_CONFIG_RESOURCES, listing(("m", 16)))
        metrics = ResourceType.CLIENT_METRICS
        assert admin.list_config_resources([metrics]) == [Resource(metrics, "m")]
        for types in ([], [ResourceType.GROUP], [metrics, ResourceType.GROUP]):
            with pytest.raises(KafkaError) as refused:
                admin.list_config_resources(types)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert [api for api, *_ in broker.requests].count(ApiKey.LIST_CONFIG_RESOURCES) == 1


def test_resources_of_an_unknown_type_are_ignored() -> None:
    with ScriptedBroker() as broker, Admin(f"{broker.host}:{broker.port}") as admin:
        broker.offers[ApiKey.LIST_CONFIG_RESOURCES] = (0, 1)
        broker.reply(ApiKey.LIST_CONFIG_RESOURCES, listing(("new", 64), ("g", 32), ("t", 2)))
        assert admin.list_config_resources() == [
            Resource(ResourceType.TOPIC, "t"),
            Resource(ResourceType.GROUP, "g"),
        ]
