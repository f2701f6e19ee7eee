"""The dispatch table: each API has the handler of its own messages."""

import inspect
import re

import pytest

from sawlog.broker.dispatch import LOADERS
from sawlog.protocol.apis import ApiKey, request_class, response_class


@pytest.mark.parametrize("key", LOADERS, ids=lambda key: key.name)
def test_loader_names_the_messages_of_its_api(key: ApiKey) -> None:
    """mypy checks the handler against the loader; this checks the loader against the key."""
    annotation = inspect.get_annotations(LOADERS[key])["return"]
    assert re.findall(r"\w+", annotation) == [
        "Handler",
        request_class(key).__name__,
        response_class(key).__name__,
    ]


@pytest.mark.parametrize("key", LOADERS, ids=lambda key: key.name)
def test_every_handler_loads(key: ApiKey) -> None:
    handler = LOADERS[key]()
    assert handler.__name__ == key.name.lower()
