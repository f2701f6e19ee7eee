"""Clients of object stores: which options there are, where credentials come from, retries.

Options are those of the library obstore, which are also those of deltalake: `endpoint`, `region`,
`access_key_id`, `secret_access_key` and so on, and settings of the HTTP client such as `timeout`.
What they leave out comes from the environment, and for S3 from a profile of the AWS command line:
the option `profile`, else `AWS_PROFILE`, else the default profile if the environment has no keys.
"""

import configparser
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from sawlog.pipeline.delta.errors import UnsupportedStorage
from sawlog.pipeline.delta.table_path import StorageOptions, StoreUrl

PROFILE = "profile"
_CLIENT_FLAGS = frozenset({"allow_http", "allow_invalid_certificates", "http1_only", "http2_only"})
_CLIENT_TEXTS = frozenset(
    {
        "connect_timeout", "timeout", "read_timeout", "pool_idle_timeout", "proxy_url",
        "proxy_ca_certificate", "proxy_excludes", "root_certificate", "user_agent",
    }
)  # fmt: skip
_RETRIES: Any = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=50),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_PROFILE_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_ENVIRONMENT_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)

Store = S3Store | GCSStore | AzureStore


class StoreConfig(NamedTuple):
    """Options by kind; `credentials` asks an AWS profile without static keys for them."""

    store: dict[str, str]
    client: dict[str, Any]
    credentials: Callable[[], Mapping[str, Any]] | None = None


def store_client(url: StoreUrl, options: StorageOptions) -> Store:
    """The client of a bucket, shared by all tables of this process. Raises UnsupportedStorage."""
    return _client(url.scheme, url.bucket, options, os.getpid())


@lru_cache(maxsize=64)
def _client(scheme: str, bucket: str, options: StorageOptions, _process: int) -> Store:
    # A forked process must not use the threads and connections of its parent.
    config = resolve(scheme, options)
    shared: Any = {"client_options": config.client, "retry_config": _RETRIES}
    if config.credentials is not None:
        shared["credential_provider"] = config.credentials
    given: Any = config.store
    try:
        if scheme == "s3":
            return S3Store(bucket, config=given, **shared)
        if scheme == "gs":
            return GCSStore(bucket, config=given, **shared)
        return AzureStore(bucket, config=given, **shared)
    except (BaseError, ValueError) as error:
        reason = str(error).splitlines()[0]
        for value in options.values():
            reason = reason.replace(value, "***") if value else reason
        raise UnsupportedStorage(f"options of {scheme}://{bucket}: {reason}") from None


def resolve(scheme: str, options: StorageOptions) -> StoreConfig:
    """Sort the options and complete them from an AWS profile."""
    client: dict[str, Any] = {}
    store: dict[str, str] = {}
    for name, value in options.items():
        if name in _CLIENT_FLAGS:
            client[name] = value.lower() == "true"
        elif name in _CLIENT_TEXTS:
            client[name] = value
        elif name != PROFILE:
            store[name] = value
    credentials = None
    if scheme == "s3" and (profile := _profile(options)) is not None:
        found = _profile_options(profile)
        store = {**{name: found[name] for name in found if name not in store}, **store}
        if "access_key_id" not in store and "aws_access_key_id" not in store:
            credentials = _session_credentials(profile)
    if any(endpoint.startswith("http://") for endpoint in _endpoints(store)):
        client.setdefault("allow_http", True)
    return StoreConfig(store, client, credentials)


def delta_options(scheme: str, options: StorageOptions) -> dict[str, str]:
    """The same options as deltalake takes them."""
    config = resolve(scheme, options)
    found = dict(config.store)
    for name, value in config.client.items():
        found[name] = str(value).lower() if isinstance(value, bool) else value
    if config.credentials is not None:
        current = config.credentials()
        found["access_key_id"] = current["access_key_id"]
        found["secret_access_key"] = current["secret_access_key"]
        if current.get("token"):
            found["session_token"] = current["token"]
    return found


def _endpoints(store: Mapping[str, str]) -> list[str]:
    names = ("endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url", "aws_endpoint_url_s3")
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return [
        *(store[name] for name in names if name in store),
        *(os.environ[name] for name in variables if name in os.environ),
    ]


def _profile(options: StorageOptions) -> str | None:
    """The name of the AWS profile to use, if any."""
    if PROFILE in options:
        return options[PROFILE]
    if "access_key_id" in options or "aws_access_key_id" in options:
        return None
    if os.environ.get("AWS_PROFILE"):
        return os.environ["AWS_PROFILE"]
    if any(name in os.environ for name in _ENVIRONMENT_CREDENTIALS):
        return None
    return "default" if any(path.exists() for path in _profile_files()) else None


def _profile_files() -> tuple[Path, Path]:
    """The files with credentials and settings of the AWS command line."""
    home = Path.home() / ".aws"
    return (
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser(),
        Path(os.environ.get("AWS_CONFIG_FILE") or home / "config").expanduser(),
    )


def _profile_options(profile: str) -> dict[str, str]:
    """The keys, region and endpoint of a profile. Raises UnsupportedStorage if there is none."""
    found: dict[str, str] = {}
    credentials, settings = _profile_files()
    sections = ((settings, {f"profile {profile}", "default"} if profile == "default"
                 else {f"profile {profile}"}), (credentials, {profile}))  # fmt: skip
    is_known = profile == "default"
    for file, names in sections:
        parser = configparser.RawConfigParser(default_section="")
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeError):
            raise UnsupportedStorage(f"{file} is not a file of AWS profiles") from None
        for name in names & set(parser.sections()):
            is_known = True
            found |= {
                _PROFILE_KEYS[key]: value
                for key, value in parser.items(name)
                if key in _PROFILE_KEYS
            }
    if not is_known:
        raise UnsupportedStorage(
            f"there is no AWS profile {profile!r} in {credentials} or {settings}"
        )
    return found


def _session_credentials(profile: str) -> Callable[[], Mapping[str, Any]] | None:
    """Credentials of a profile without static keys (SSO, a role, a process), by boto3.

    None if the profile is the implicit default one and has none: instance metadata may have them.
    """
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if profile == "default":
            return None
        raise UnsupportedStorage(
            f"the AWS profile {profile!r} has no static keys; for SSO, roles and credential"
            " processes install boto3"
        ) from None
    session = Session(profile_name=None if profile == "default" else profile)
    if session.get_credentials() is None:
        return None
    return Boto3CredentialProvider(session)
