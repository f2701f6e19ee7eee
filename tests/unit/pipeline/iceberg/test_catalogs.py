"""Catalogs: durable metadata, and errors without the values of options."""

import os
from pathlib import Path

import pytest

from sawlog.pipeline.delta.errors import StoreUnavailable, UnsupportedStorage
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.iceberg.catalogs import CatalogConfig, catalog_error, open_catalog
from support.pipeline.iceberg_tables import land, new_iceberg, table_ref


def test_metadata_in_a_directory_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[str] = set()
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    table = new_iceberg(table_ref(tmp_path, "t"))
    land(table, 0, 0, 10)
    metadata = tmp_path / "t" / "metadata"
    written = {str(file) for file in metadata.iterdir()}
    assert len([name for name in written if name.endswith(".avro")]) == 2
    assert written | {str(metadata)} <= synced


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("sql", "postgresql+psycopg2://user:hidden-password@127.0.0.1:1/lake"),
        ("sql", "nonsense://hidden-password"),
        ("rest", "http://user:hidden-password/x@127.0.0.1:1"),
    ],
)
def test_a_catalog_that_cannot_be_opened_shows_no_credentials(kind: str, uri: str) -> None:
    config = CatalogConfig(kind, options=StorageOptions({"uri": uri}))
    with pytest.raises((UnsupportedStorage, StoreUnavailable)) as caught:
        open_catalog(config, TablePath("/lake/t"))
    assert "hidden-password" not in str(caught.value)
    assert f"the {kind} catalog" in str(caught.value)


def test_values_of_options_are_blotted_out_of_errors() -> None:
    config = CatalogConfig("rest", options=StorageOptions({"token": "hidden-token"}))
    told = str(catalog_error(config, ConnectionError("refused hidden-token\nmore")))
    assert "refused ***" in told
    assert "hidden-token" not in told
    assert "more" not in told
