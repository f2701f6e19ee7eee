"""DescribeCluster, versions 0 to 2 (KIP-700; 919 for endpoint types; 1073 for fenced brokers).

A broker that is not there is not known here either, so none is ever told as fenced.
"""

from typing import TYPE_CHECKING

from sawlog.broker.api.metadata import CLUSTER_OPERATIONS
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.broker import Broker
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(
    broker: "Broker", request: "Request", message: "DescribeClusterRequest"
) -> DescribeClusterResponse:
    kind = message.endpoint_type
    if kind == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if kind != BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if request.api_version == 0:
            code = ErrorCode.INVALID_REQUEST
        words = f"Unsupported endpoint type {kind}"
        return DescribeClusterResponse(error_code=int(code), error_message=words)
    image = broker.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=b.id, host=b.host, port=b.port, rack=b.rack)
            for b in image.brokers.values()
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
