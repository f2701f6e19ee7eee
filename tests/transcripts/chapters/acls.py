"""DescribeAcls, CreateAcls and DeleteAcls on a broker without an authorizer."""

from transcripts.dialogue import Dialogue

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


def chapter(talk: Dialogue) -> None:
    for version in (1, 2, 3):
        talk.ask("all ACLs", "DescribeAcls", version, EVERY_ACL)
        talk.ask("two new ACLs", "CreateAcls", version, {"creations": [ACL, ACL]})
        talk.ask("no new ACL", "CreateAcls", version, {"creations": []})
        talk.ask("all ACLs deleted", "DeleteAcls", version, {"filters": [EVERY_ACL, EVERY_ACL]})
        talk.ask("no ACL deleted", "DeleteAcls", version, {"filters": []})
