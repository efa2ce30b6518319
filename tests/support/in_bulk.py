"""Rows of many directories wait together; here also those of few, and a file is large soon."""

from __future__ import annotations

import pytest

from kafka_s3.engine.open_files import row_forms, small_files
from kafka_s3.engine.task import writer


def take_in_bulk(patch: pytest.MonkeyPatch) -> None:
    """Has rows of any number of directories wait together, until a file has a few."""
    patch.setattr(writer, "MANY", 1)
    patch.setattr(row_forms, "SMALL_TEXT", 60)
    patch.setattr(row_forms, "SMALL_ROWS", 100)
    patch.setattr(small_files, "SHARE_FILES", 2)
