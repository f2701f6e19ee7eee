"""Where options and credentials of an object store come from."""

from pathlib import Path

import pytest

from sawlog.pipeline.delta.errors import UnsupportedStorage
from sawlog.pipeline.delta.store_clients import delta_options, resolve
from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions

CREDENTIALS = """
[default]
aws_access_key_id = default-id
aws_secret_access_key = default-secret
[lake]
aws_access_key_id = lake-id
aws_secret_access_key = lake-secret
aws_session_token = lake-token
"""
CONFIG = """
[default]
region = eu-west-1
[profile lake]
region = eu-north-1
endpoint_url = http://127.0.0.1:9
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of profiles, and an environment without anything of AWS."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(CREDENTIALS)
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def test_the_default_profile_is_used_if_nothing_else_is_given() -> None:
    assert resolve("s3", NO_OPTIONS).store == {
        "region": "eu-west-1", "access_key_id": "default-id",
        "secret_access_key": "default-secret",
    }  # fmt: skip


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_profile_is_named_by_an_option_or_the_environment(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "environment":
        monkeypatch.setenv("AWS_PROFILE", "lake")
    options = StorageOptions({"profile": "lake"} if by == "option" else {})
    found = delta_options("s3", options)
    assert found == {
        "region": "eu-north-1", "endpoint": "http://127.0.0.1:9", "allow_http": "true",
        "access_key_id": "lake-id", "secret_access_key": "lake-secret",
        "session_token": "lake-token",
    }  # fmt: skip


def test_options_come_before_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    given = StorageOptions({"access_key_id": "mine", "secret_access_key": "own", "region": "r"})
    assert resolve("s3", given).store == dict(given)
    both = resolve("s3", StorageOptions({"profile": "lake", "region": "r"})).store
    assert both["region"] == "r"
    assert both["access_key_id"] == "lake-id"


def test_keys_in_the_environment_come_before_the_default_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    assert resolve("s3", NO_OPTIONS).store == {}


def test_a_missing_profile_is_an_error() -> None:
    with pytest.raises(UnsupportedStorage, match="no AWS profile 'other'"):
        resolve("s3", StorageOptions({"profile": "other"}))


def test_other_stores_have_no_profiles() -> None:
    assert resolve("gs", NO_OPTIONS).store == {}


def test_settings_of_the_http_client_are_sorted_out() -> None:
    given = {"endpoint": "https://s3.example", "allow_http": "true", "timeout": "5s"}
    found = resolve("s3", StorageOptions({**given, "access_key_id": "a"}))
    assert found.client == {"allow_http": True, "timeout": "5s"}
    assert found.store == {"endpoint": "https://s3.example", "access_key_id": "a"}


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_google_and_azure_clients_are_built_from_options(scheme: str) -> None:
    from sawlog.pipeline.delta.store_clients import store_client
    from sawlog.pipeline.delta.table_path import parse_url

    options = {"gs": {"skip_signature": "true"}, "az": {"account_name": "a", "access_key": "a2V5"}}
    client = store_client(parse_url(f"{scheme}://lake/p"), StorageOptions(options[scheme]))
    assert "lake" in repr(client)
