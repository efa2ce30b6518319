"""What does the vendor's command get to see, where there is one?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bundle.validate import main as validate_by_the_vendor


def test_the_vendors_command_judges_every_target_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "asked"
    command = tmp_path / "databricks"
    command.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncase "$*" in *"--target prod"*) exit 1;; esac\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DATABRICKS_HOST", raising=False)
    monkeypatch.delenv("DATABRICKS_CONFIG_PROFILE", raising=False)
    assert validate_by_the_vendor() == 0
    assert "not checked by it" in capfd.readouterr().out
    assert not asked.exists()
    monkeypatch.setenv("DATABRICKS_HOST", "https://example.org")
    assert validate_by_the_vendor() == 1
    assert [line.split(" --var")[0] for line in asked.read_text().splitlines()] == [
        "bundle validate --strict --target dev", "bundle validate --strict --target prod",
    ]  # fmt: skip
    command.unlink()
    assert validate_by_the_vendor() == 0
    assert "no `databricks` command on PATH: not checked are" in capfd.readouterr().out
