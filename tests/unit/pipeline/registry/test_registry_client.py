"""The client of a schema registry: what it asks for, what it keeps, and when it gives up."""

import datetime as dt
import ipaddress
import pickle
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sawlog.pipeline.registry.registry_client import (
    Reference,
    RegistryClient,
    RegistryRefused,
    RegistryUnavailable,
    UnknownSchema,
    registry_client,
)
from sawlog.pipeline.registry.registry_url import RegistryUrl, registry_url
from support.pipeline.schema_registry import NOT_FOUND, Answer, SchemaRegistry, running_registry

AVRO = {"schema": '"string"', "schemaType": "AVRO"}
DOWN = Answer(503, {"error_code": 50301, "message": "down"})
NO_ENVIRONMENT: dict[str, str] = {}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as running:
        yield running


class Client(RegistryClient):
    """A client whose pauses take no time."""

    def __init__(self, *urls: str, **options: str) -> None:
        self.pauses: list[float] = []
        super().__init__(registry_url(urls, options, NO_ENVIRONMENT), self.pauses.append)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_schema_is_fetched_once_by_id_and_by_guid(registry: SchemaRegistry) -> None:
    stored = registry.register("t-value", AVRO)
    client = Client(registry.url)
    for schema_id in (stored.id, stored.guid, stored.id, stored.guid):
        assert client.schema(schema_id) == ("AVRO", '"string"', ())
    assert registry.requests == [
        f"GET /schemas/ids/{stored.id}",
        f"GET /schemas/guids/{stored.guid}",
    ]


def test_references_stand_behind_what_they_need(registry: SchemaRegistry) -> None:
    def named(name: str, *needs: str) -> int:
        references = [{"name": need, "subject": f"s/{need}", "version": 1} for need in needs]
        document = {"schema": f"text of {name}", "schemaType": "PROTOBUF", "references": references}
        return registry.register(f"s/{name}", document).id

    named("a"), named("b", "a"), named("c", "a", "b")
    found = Client(registry.url).schema(named("d", "c", "b"), "serialized")
    assert found.references == tuple(Reference(name, f"text of {name}") for name in "abc")


def test_an_unknown_schema_is_no_failure_of_the_registry(registry: SchemaRegistry) -> None:
    client = Client(registry.url)
    for schema_id in (7, "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(UnknownSchema):
            client.schema(schema_id)
    registry.script = lambda path: NOT_FOUND if "guids" in path else None  # without GUIDs
    with pytest.raises(UnknownSchema):
        client.schema("11111111-0000-0000-0000-000000000000")
    assert not client.pauses


@pytest.mark.parametrize(
    "answer", [DOWN, NOT_FOUND, Answer(200, b"<html>"), Answer(200, []), Answer(302, {}),
               Answer(429, {}), Answer(200, {"schema": 5})],
)  # fmt: skip
def test_a_server_that_does_not_answer_as_a_registry_is_unavailable(
    registry: SchemaRegistry, answer: Answer
) -> None:
    registry.script = lambda _path: answer
    with pytest.raises(RegistryUnavailable, match=str(registry.port)):
        Client(registry.url).schema(1)


def test_a_failing_request_is_repeated(registry: SchemaRegistry) -> None:
    stored = registry.register("t-value", AVRO)
    answers = [DOWN, DOWN]
    registry.script = lambda _path: answers.pop() if answers else None
    client = Client(registry.url)
    assert client.schema(stored.id).kind == "AVRO"
    assert client.pauses == [0.2, 0.8]


def test_the_next_url_is_asked_if_one_does_not_answer(registry: SchemaRegistry) -> None:
    stored = registry.register("t-value", AVRO)
    client = Client(f"http://127.0.0.1:{closed_port()}", registry.url)
    assert client.schema(stored.id).kind == "AVRO"
    assert not client.pauses


def test_nothing_listens(registry: SchemaRegistry) -> None:
    client = Client(f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(RegistryUnavailable, match="does not answer: Connection refused"):
        client.schema(1)
    assert len(client.pauses) == 2


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({"user": "ann", "password": "s3cret"}, "Basic YW5uOnMzY3JldA=="),
        ({"token": "s3cret"}, "Bearer s3cret"),
    ],
)
def test_credentials_are_sent_and_never_shown(
    registry: SchemaRegistry, options: dict[str, str], header: str
) -> None:
    registry.required_authorization = header
    Client(registry.url, **options).check()
    assert registry.authorizations == {header}
    url = registry_url([registry.url], options, NO_ENVIRONMENT)
    assert pickle.loads(pickle.dumps(url)).options == url.options
    registry.required_authorization = "another"
    with pytest.raises(RegistryRefused) as refused:
        registry_client(url).check()
    assert "s3cret" not in f"{url!r} {url} {url.options!r} {refused.value}"


def test_credentials_come_from_the_environment_unless_the_file_has_some() -> None:
    environment = {"SAWLOG_REGISTRY_USER": "ann", "SAWLOG_REGISTRY_PASSWORD": "p"}
    found = registry_url(["http://a"], {}, environment)
    assert dict(found.options) == {"user": "ann", "password": "p"}
    found = registry_url(["http://a"], {"token": "t"}, environment)
    assert dict(found.options) == {"token": "t"}


def own_certificate(directory: Path) -> tuple[ssl.SSLContext, str]:
    """The context of a server at 127.0.0.1, and the certificate that a client must trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = directory / "server.pem"
    file.write_bytes(private + text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, text.decode()


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    context, certificate = own_certificate(tmp_path)
    with running_registry(context) as registry:
        Client(registry.url, ca_certificates=certificate).check()
        with pytest.raises(RegistryUnavailable, match="certificate verify failed"):
            Client(registry.url).check()
    assert len(registry.requests) == 1


def test_clients_of_a_process_are_shared_by_credentials() -> None:
    first = registry_url(["http://a"], {"token": "t"}, NO_ENVIRONMENT)
    same = pickle.loads(pickle.dumps(first))
    other = registry_url(["http://a"], {"token": "u"}, NO_ENVIRONMENT)
    assert registry_client(first) is registry_client(same)
    assert registry_client(first) is not registry_client(other)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://a", {}, "expected a URL"),
        ("http://", {}, "expected a URL"),
        ("http://a:x", {}, "expected a URL"),
        ("http://ann:s3cret@a", {}, "credentials are given beside it"),
        ("http://ann:s3cret/x@a", {}, "credentials are given beside it"),
        ("http://a?token=s3cret", {}, "credentials are given beside it"),
        ("http://a", {"pasword": "s3cret"}, "no option 'pasword'"),
        ("http://a", {"user": "s3cret"}, "given together"),
        ("http://a", {"user": "a", "password": "s3cret", "token": "s3cret"}, "not both"),
        ("http://a", {"token": "s3cret\n"}, "control character"),
        ("http://a", {"timeout": "s3cret"}, "expected seconds"),
    ],
)
def test_a_wrong_address_is_reported_without_credentials(
    url: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as wrong:
        registry_url([url], options, NO_ENVIRONMENT)
    assert "s3cret" not in str(wrong.value)


def test_several_urls_are_one_address() -> None:
    found = registry_url(["http://a/", "https://b:8081/path"], {}, NO_ENVIRONMENT)
    assert found.urls == ["http://a", "https://b:8081/path"]
    assert isinstance(found, RegistryUrl)
