"""DescribeAcls, CreateAcls and DeleteAcls on a broker without an authorizer."""

from transcripts.transcript import Transcript

TOPIC, ANY, LITERAL, READ, ALLOW = 2, 1, 3, 3, 3
ACL = {
    "resource_type": TOPIC,
    "resource_name": "acls-topic",
    "resource_pattern_type": LITERAL,
    "principal": "User:anna",
    "host": "*",
    "operation": READ,
    "permission_type": ALLOW,
}
EVERY_ACL = {
    "pattern_type_filter": ANY,
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def run(transcript: Transcript) -> None:
    for version in (1, 2, 3):
        transcript.request("all ACLs", "DescribeAcls", version, EVERY_ACL)
        transcript.request("two new ACLs", "CreateAcls", version, {"creations": [ACL, ACL]})
        transcript.request("no new ACL", "CreateAcls", version, {"creations": []})
        transcript.request(
            "all ACLs deleted", "DeleteAcls", version, {"filters": [EVERY_ACL, EVERY_ACL]}
        )
        transcript.request("no ACL deleted", "DeleteAcls", version, {"filters": []})
