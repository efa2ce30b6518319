from __future__ import annotations

from pathlib import Path

import pytest

from kafka_s3.connect.registry.client import RegistryClient
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.model.errors import RegistryError


def test_authorities_are_loaded_where_a_url_is_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    RegistryClient(RegistryOptions(("http://127.0.0.1:9",))).close()
    with pytest.raises(RegistryError, match="check certificates"):
        RegistryClient(RegistryOptions(("http://127.0.0.1:9", "https://127.0.0.1:9")))
