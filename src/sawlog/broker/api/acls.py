"""DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3 (KIP-140, 290), without an authorizer.

Every entry gets SECURITY_DISABLED, as in Kafka without `authorizer.class.name`. Tools and Kafka
Connect rely on that code: it means that there are no ACLs to manage.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from sawlog.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsResponse,
)
from sawlog.protocol.messages.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.create_acls_request import CreateAclsRequest
    from sawlog.protocol.messages.delete_acls_request import DeleteAclsRequest
    from sawlog.protocol.messages.describe_acls_request import DescribeAclsRequest

DISABLED = int(ErrorCode.SECURITY_DISABLED)
NO_AUTHORIZER = "No Authorizer is configured."


def describe_acls(_: object, __: "Request", ___: "DescribeAclsRequest") -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=DISABLED, error_message=NO_AUTHORIZER)


def create_acls(_: object, __: "Request", message: "CreateAclsRequest") -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=DISABLED, error_message=NO_AUTHORIZER)
            for _creation in message.creations
        ]
    )


def delete_acls(_: object, __: "Request", message: "DeleteAclsRequest") -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=DISABLED, error_message=NO_AUTHORIZER)
            for _filter in message.filters
        ]
    )
