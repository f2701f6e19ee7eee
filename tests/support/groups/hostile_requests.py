"""Group requests that no client would send in this order or with these values. Most of them have
existing groups, members and generations, so that they pass the first checks."""

from random import Random
from typing import TYPE_CHECKING, Any

from sawlog.protocol.apis import ApiKey, request_class, valid_versions
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.messages.join_group_request import JoinGroupRequestProtocol
from sawlog.protocol.schema import Message
from support.protocol.hostile_frames import header
from support.protocol.messages import random_message

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)
OFTEN = (ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
GROUPS = ("a", "b", "c") * 5 + ("", "füße", "z" * 32_000)
MEMBERS = ("", "m1", "m2", "m3", " ", "m" * 32_000)
INSTANCES = (None,) * 9 + ("i1", "i2") * 3 + ("", "i" * 32_000)
TOPICS = ("t", "u", "none", "__consumer_offsets", "")
PATTERNS = (
    *(None, "", "t", "t|u", ".*") * 3,
    *("(", "a{1000}{1000}", "(a|b)*" * 900, "x" * 32_000),
)
ASSIGNORS = (None,) * 6 + ("uniform", "range", "no such one")
EPOCHS = (-3, -2, -1, 0, 0, 0, 1, 2, 3, 4, 5, 0x7FFFFFFF)
PROTOCOLS = ("range",) * 6 + ("roundrobin", "cooperative-sticky", "", "p" * 32_000)
PROTOCOL_TYPES = ("consumer",) * 9 + ("connect", "")
SESSIONS_MS = (100, 300, 1_000, 6_000) * 4 + (-1, 0, 2**31 - 1)


class GroupAttacker:
    """Collects the ids from responses and uses them in all kinds of requests."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.member_ids: list[str] = []
        self._choices: dict[str, Callable[[], Any]] = {
            "group_id": lambda: random.choice(GROUPS),
            "groups_names": lambda: random.choices(GROUPS, k=2),
            "group_ids": lambda: random.choices(GROUPS, k=2),
            "member_id": self._member,
            "group_instance_id": lambda: random.choice(INSTANCES),
            "instance_id": lambda: random.choice(INSTANCES),
            "generation_id": lambda: random.choice(EPOCHS),
            "member_epoch": lambda: random.choice(EPOCHS),
            "generation_id_or_member_epoch": lambda: random.choice(EPOCHS),
            "session_timeout_ms": lambda: random.choice(SESSIONS_MS),
            "rebalance_timeout_ms": lambda: random.choice((-1, 0, 1, 50, 50, 50, 300, 300)),
            "retention_time_ms": lambda: random.choice((-(2**63), -1, -1, 0, 5, 2**63 - 1)),
            "protocol_type": lambda: random.choice(PROTOCOL_TYPES),
            "protocol_name": lambda: random.choice(PROTOCOLS),
            "subscribed_topic_regex": lambda: random.choice(PATTERNS),
            "subscribed_topic_names": lambda: random.choice((None, [], ["t"], ["t", "u", "x"])),
            "server_assignor": lambda: random.choice(ASSIGNORS),
            "rack_id": lambda: random.choice((None, None, "r")),
            "protocols": self._protocols,
            "metadata": self._metadata,
            "partition_index": lambda: random.choice((-1, 0, 1, 2, 3, 2**31 - 1)),
            "partition_indexes": lambda: random.choices((-1, 0, 1, 2, 3), k=3),
            "partitions": lambda: random.choices((-1, 0, 1, 2, 3), k=3),
            "topic_partitions": lambda: random.choice((None, [], [])),
        }

    def _member(self) -> str:
        known = self.member_ids[-6:]
        return self._random.choice((*MEMBERS, *known, *known))

    def _protocols(self) -> list[JoinGroupRequestProtocol]:
        names = self._random.sample(PROTOCOLS, self._random.choice((1, 1, 1, 2, 3)))
        return [JoinGroupRequestProtocol(name, self._metadata()) for name in names]

    def _metadata(self) -> bytes:
        version = self._random.choice((0, 1, 2, 3, 3, 9))
        subscription = ConsumerProtocolSubscription(self._random.sample(TOPICS, 2))
        good = version.to_bytes(2) + encode(subscription, min(version, 3))
        return self._random.choice((good, good, good, good[:5], b"", bytes(3), b"\xff" * 20))

    def request(self) -> tuple[Message, int]:
        """A message and its version."""
        api = self._random.choice(OFTEN if self._random.random() < 0.5 else GROUP_APIS)
        first, last = valid_versions(api)
        version = self._random.randint(first, last)
        message = random_message(request_class(api), version, self._random)
        self._fill(message, type(message))
        return message, version

    def frame(self) -> tuple[ApiKey, int, bytes]:
        """The API, the version, and a frame without its length."""
        message, version = self.request()
        api = ApiKey(type(message).SCHEMA.api_key)
        return api, version, header(self._random, api, version) + encode(message, version)

    def learn(self, answer: Any) -> None:
        """Take the member id and the leader id from a response."""
        self.member_ids += [
            name for field in ("member_id", "leader") if (name := getattr(answer, field, None))
        ]

    def _fill(self, message: Any, cls: type) -> None:
        """Replace most random values by likely ones."""
        for name in cls.__annotations__:
            value = getattr(message, name)
            is_structs = isinstance(value, list) and value and isinstance(value[0], Message)
            if name in self._choices and not (is_structs and name == "partitions"):
                if value != getattr(cls(), name) and self._random.random() < 0.95:
                    setattr(message, name, self._choices[name]())
            elif is_structs:
                for element in value:
                    self._fill(element, type(element))
            elif name == "name" and value:
                setattr(message, name, self._random.choice(TOPICS))
