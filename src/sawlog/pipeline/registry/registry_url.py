"""The address of a schema registry with its options: credentials, certificates, the timeout.

`http://host:8081`, or several URLs of one registry, which are tried in their order. Options:
`user` and `password`, or `token` (a bearer token); `ca_certificates`, the text of a PEM file;
`timeout`, in seconds.
"""

import os
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from sawlog.pipeline.delta.table_path import Address, StorageOptions

OPTIONS = ("user", "password", "token", "ca_certificates", "timeout")
TIMEOUT_S = 10.0
_FROM_ENVIRONMENT = {
    "user": "SAWLOG_REGISTRY_USER",
    "password": "SAWLOG_REGISTRY_PASSWORD",
    "token": "SAWLOG_REGISTRY_TOKEN",
}


class RegistryUrl(Address):
    """One or more URLs of a registry, separated by commas, with its options."""

    @property
    def urls(self) -> list[str]:
        return self.split(",")


def registry_url(
    urls: Sequence[str],
    options: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> RegistryUrl:
    """Check URLs and options; credentials that the options lack come from the environment.

    Raises ValueError without the value of an option, and without a URL that has credentials.
    """
    cleaned = [_checked_url(url) for url in urls]
    found = dict(options)
    for name in found:
        if name not in OPTIONS:
            raise ValueError(f"a registry has no option {name!r}; there are {', '.join(OPTIONS)}")
    if not {"user", "password", "token"} & found.keys():
        named = {name: environment.get(word, "") for name, word in _FROM_ENVIRONMENT.items()}
        found |= {name: value for name, value in named.items() if value}
    if "token" in found and {"user", "password"} & found.keys():
        raise ValueError("a registry takes user and password, or a token, not both")
    if ("user" in found) != ("password" in found):
        raise ValueError("user and password of a registry are given together")
    for name in ("user", "password", "token"):
        if not found.get(name, "").isprintable():
            raise ValueError(f"{name} of a registry has a line end or a control character")
    timeout = found.get("timeout")
    if timeout is not None and not _is_positive(timeout):
        raise ValueError("timeout of a registry: expected seconds, such as 5")
    return RegistryUrl(",".join(cleaned), StorageOptions(found))


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if "@" in url or parts.query or parts.fragment:  # a password may have a slash
        raise ValueError(
            "the URL of a registry has a host, a port and a path only; credentials are given beside"
            " it (registry_options) or by the environment"
        )
    try:
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port or "," in url:
        raise ValueError(f"expected a URL such as http://127.0.0.1:8081, not {url!r}")
    return url.rstrip("/")


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < 3_600
    except ValueError:
        return False
