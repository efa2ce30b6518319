"""Which bucket does the dashboard show, and how is it reached? The surroundings say it; nothing is entered on a page.

`kafka-s3 dashboard` sets `KAFKA_S3_DASHBOARD_*`, a deployment of the bundle `KAFKA_S3_BUCKET` and its kin, with credentials in AWS's own
variables or by the name of a service credential.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_s3.connect.config.options.ours import STATE_PREFIX
from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.settings import REGION, Settings
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.model.text import MASK
from kafka_s3.run.wiring.bucket import SinkFolder, folder_of, named_folder
from kafka_s3.store.s3 import S3Store
from kafka_s3_dashboard.reading.reader import BucketReader, bounded

CONFIG: Final = "KAFKA_S3_DASHBOARD_CONFIG"
WORKER: Final = "KAFKA_S3_DASHBOARD_WORKER"
OVERRIDES: Final = "KAFKA_S3_DASHBOARD_SET"
SINK: Final = "KAFKA_S3_DASHBOARD_SINK"
LOGIN: Final = "KAFKA_S3_DASHBOARD_LOGIN"
MASKED: Final = "KAFKA_S3_DASHBOARD_MASK_FIELDS"
NAMES: Final = (
    CONFIG, WORKER, OVERRIDES, SINK, MASKED, LOGIN, "KAFKA_S3_BUCKET", "KAFKA_S3_STORE_URL", "KAFKA_S3_REGION", "KAFKA_S3_STATE_PREFIX",
    "KAFKA_S3_SERVICE_CREDENTIAL",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """A bucket and the folder of its sinks' state. `settings` and `sink` are of the configuration that the dashboard was started with.

    `masked` are the fields of records that nobody shall see, `credential` the name of a service credential that reaches the bucket.
    """

    folder: SinkFolder
    reader: BucketReader
    settings: Settings | None = None
    sink: str = ""
    file: str = ""
    worker: str = ""
    overrides: tuple[tuple[str, str], ...] = ()
    masked: frozenset[str] = frozenset()
    credential: str = ""

    def command(self, sink: str) -> str:
        """How `kafka-s3` commands name a sink, safe to paste into a shell; values of secret settings are left out.

        That is the configuration that the dashboard was started with, else the sink's name and where its state lies.
        """
        if self.settings is None or sink != self.sink:
            return shlex.join([sink, *self._where()])
        shown = self.settings.masked()
        pairs = (f"{key}={'...' if shown.get(key, MASK) == MASK else value}" for key, value in self.overrides)
        worker = ["--worker", self.worker] if self.worker else []
        return shlex.join([self.file, *worker, *(word for pair in pairs for word in ("--set", pair))])

    def _where(self) -> Iterator[str]:
        """The options that name the bucket, as far as they are not those without options."""
        options = self.reader.options
        yield from ("--bucket", self.folder.bucket)
        if self.folder.endpoint:
            yield from ("--store-url", self.folder.endpoint)
        if options is not None and options.region != REGION:
            yield from ("--region", options.region)
        if self.credential:
            yield from ("--service-credential", self.credential)
        if self.folder.prefix != STATE_PREFIX:
            yield from ("--state-prefix", self.folder.prefix)


def surroundings() -> tuple[tuple[str, str], ...]:
    """The variables that say which bucket is meant."""
    return tuple((name, os.environ[name]) for name in NAMES if os.environ.get(name))


def opened(variables: Mapping[str, str]) -> OpenBucket:
    """The bucket that the variables name. Raises ConfigError where they name none, or a configuration with problems."""
    masked = frozenset(name for text in variables.get(MASKED, "").split(",") if (name := text.strip()))
    if file := variables.get(CONFIG):
        worker, overrides = variables.get(WORKER, ""), pairs(json.loads(variables.get(OVERRIDES, "[]")))
        settings = load(Path(file), worker_path=Path(worker) if worker else None, overrides=overrides)
        folder = folder_of(resolved(settings))
        return OpenBucket(
            folder, _reader(folder), settings, settings.name, file, worker, tuple(overrides.items()), masked
        )
    folder = named_folder(
        variables.get("KAFKA_S3_BUCKET"),
        variables.get("KAFKA_S3_STATE_PREFIX", STATE_PREFIX),
        region=variables.get("KAFKA_S3_REGION", REGION),
        store_url=variables.get("KAFKA_S3_STORE_URL"),
        service_credential=variables.get("KAFKA_S3_SERVICE_CREDENTIAL"),
    )
    credential = variables.get("KAFKA_S3_SERVICE_CREDENTIAL", "")
    return OpenBucket(folder, _reader(folder), sink=variables.get(SINK, ""), masked=masked, credential=credential)


def _reader(folder: SinkFolder) -> BucketReader:
    """What all pages and threads read through."""
    return BucketReader(S3Store(bounded(folder.store.options)) if isinstance(folder.store, S3Store) else folder.store)
