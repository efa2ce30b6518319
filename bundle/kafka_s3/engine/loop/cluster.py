"""Is this the Kafka cluster that the sink was fed by? Offsets of another one mean other records."""

from __future__ import annotations

from kafka_s3.model.errors import SourceError


def is_another(known: str, found: str) -> bool:
    """Whether two cluster ids are of different clusters; a blank one says nothing."""
    return bool(known) and bool(found) and known != found


def check_cluster(known: str, found: str, *, sink: str, remedy: str) -> None:
    """Raises SourceError where the log knows another cluster (`known`) than the one that was reached (`found`)."""
    if is_another(known, found):
        raise SourceError(
            f"Sink {sink} was fed by Kafka cluster {known}, but this is cluster {found}: its offsets mean other records. "
            f"Check kafka.bootstrap.servers, or {remedy}."
        )
