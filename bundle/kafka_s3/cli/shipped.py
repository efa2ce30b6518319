"""Where is what comes with the package, the dashboard and the examples? In the source tree, else where the wheel put it."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Final

import kafka_s3
from kafka_s3.model.errors import ConfigError, Problem

SHARED: Final = "share/kafka-s3"


def shipped(name: str) -> Path:
    """The file `name`, relative to the top of the source tree. Raises ConfigError where neither tree nor wheel has it."""
    tree, installed = Path(kafka_s3.__file__).parents[2], Path(sysconfig.get_path("data")) / SHARED
    found = next((folder / name for folder in (tree, installed) if (folder / name).is_file()), None)
    if found is None:
        remedy = "Install kafka-s3 anew, or start it in its source tree."
        raise ConfigError([Problem(name, str(installed), "is not there.", remedy)])
    return found
