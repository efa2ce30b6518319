"""Which settings has a sink that is named by its configuration file, or by its name in a bucket?"""

from __future__ import annotations

from pathlib import Path

from kafka_s3.cli.arguments import Overrides, SinkName, Where, WorkerPath, settings_of
from kafka_s3.cli.composed import composed
from kafka_s3.cli.control_target import Target, is_file, stored_settings
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import resolved


@composed(where=Where)
def sink_settings(sink: SinkName, where: Where, worker: WorkerPath = None, overrides: Overrides = None) -> Settings:
    """The checked settings of a file, or those stored beside a sink's log; references resolved. Raises ConfigError."""
    if is_file(sink):
        return settings_of(Path(sink), worker, overrides)
    place = where.folder()
    place.known(sink)
    return resolved(stored_settings(Target(place, sink, sink), overrides))
