"""Which errors does the product raise, and who has to act on each?

::

    SinkError
    ├── ConfigError              the operator
    ├── RecordError              the data's owner
    ├── SourceError              the operator of Kafka: OffsetsLost, TopicRecreated, TopicMissing, UnreadableRecord,
    │                            EngineDied*, TaskTimedOut*, KafkaUnavailable*
    ├── RegistryError            the operator of the schema registry: UnknownSchema, RegistryUnavailable*
    ├── StorageError             the operator of the bucket: ObjectMissing, ObjectArchived, UploadMissing, PreconditionFailed,
    │                            StorageUnavailable*
    ├── LocalDiskError           whoever runs Spark
    ├── LocalServiceError        whoever runs the demo: Java, a jar, or a server (defined in `run.java`)
    ├── TableError               the operator of the Delta table, or of the catalog: TableRefused, TableUnavailable*
    ├── Defect                   whoever maintains kafka-s3
    ├── PartitionsStopped        the operator
    ├── NotificationFailed       whoever runs what is notified
    └── CommitError              the commit log: Fenced, CommitUnknown, LogDamaged

What has a star is worth another try.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


class SinkError(Exception):
    """Root of every error the product raises on purpose; its text is fit for the user and free of secrets.

    `exit_code` is that of a process which it ends (docs/operations.md, "Exit codes").
    """

    exit_code: ClassVar[int] = 1


def reason_of(error: Exception) -> str:
    """An error's text where it is the product's own and so free of secrets; of others the kind only."""
    if isinstance(error, SinkError):
        return f"{type(error).__name__}: {error}"
    return (
        f"{type(error).__name__}, which is not an error of the product's own. Its text is in the output of the process."
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration: the key, its value as given (masked), the rule broken, and a remedy."""

    key: str
    value: str | None
    rule: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line for a terminal or a log."""
        shown = "not set" if self.value is None else f"{self.value!r}"
        return f"{self.key} ({shown}): {self.rule}" + (f" {self.remedy}" if self.remedy else "")


class ConfigError(SinkError):
    """The configuration cannot be used. `problems` holds all of them, not just the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        noun = "problem" if len(self.problems) == 1 else "problems"
        super().__init__(f"{len(self.problems)} configuration {noun}:\n" + "\n".join(f"  {p}" for p in self.problems))


class RecordError(SinkError):
    """A record cannot be written and the error policy does not allow to go on without it.

    `coordinates` are its `stage`, `topic`, `partition` and `offset`, as far as they are known.
    """

    def __init__(self, text: str, coordinates: Mapping[str, str | int] | None = None) -> None:
        super().__init__(text)
        self.coordinates = dict(coordinates or {})


class SourceError(SinkError):
    """Kafka cannot give what is needed."""


class OffsetsLost(SourceError):
    """Records that must be read are no longer in Kafka."""


class TopicRecreated(SourceError):
    """A topic was deleted and created again; its offsets mean other records now."""


class TopicMissing(SourceError):
    """A topic of the configuration is not in Kafka, and never was: its name may be wrong."""

    exit_code = 4


class EngineDied(SourceError):
    """A process of Spark died at its work; nothing that it did was committed."""


class TaskTimedOut(SourceError):
    """A task took longer than `task.timeout.ms`, and was given up."""


class UnreadableRecord(SourceError):
    """A client of Kafka has no form for a record, or the record is damaged: no outage, and another attempt meets it again.

    `offset` is the first that could not be read, None where the client does not say.
    """

    def __init__(self, text: str, offset: int | None = None) -> None:
        super().__init__(text)
        self.offset = offset


class KafkaUnavailable(SourceError):
    """The brokers did not answer in time."""


class RegistryError(SinkError):
    """The schema registry refused a request."""


class UnknownSchema(RegistryError):
    """The schema registry has no schema of that id or subject: an error of the record that names it."""


class RegistryUnavailable(RegistryError):
    """The schema registry did not answer, after all retries."""


class StorageError(SinkError):
    """The object store refused a request."""


class StorageUnavailable(StorageError):
    """The object store throttled, timed out or could not be reached, after all retries."""


class ObjectMissing(StorageError):
    """No object of that key."""


class ObjectArchived(StorageError):
    """The object lies in an archive (a storage class such as GLACIER): its name, size and ETag are known, its bytes are not."""


class UploadMissing(StorageError):
    """No multipart upload of that id: completed, aborted or expired."""


class PreconditionFailed(StorageError):
    """A conditional put found an object already there."""


class LocalDiskError(SinkError):
    """A worker's local disk does not take what has to wait there."""


class TableError(SinkError):
    """A Delta table does not follow; the sink goes on without it."""


class TableUnavailable(TableError):
    """The table did not answer, or another writer was faster."""


class TableRefused(TableError):
    """The table cannot take the files as it is."""


class Defect(SinkError):
    """A failure of a task or a follower that nobody foresaw; the text names the error, the log has its trace."""


class PartitionsStopped(SinkError):
    """Some topic-partitions have stopped and wait for an operator; the others went on. `topic_partitions` has their names."""

    exit_code = 3

    def __init__(self, text: str, topic_partitions: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.topic_partitions = tuple(topic_partitions)


class NotificationFailed(SinkError):
    """A message about a commit was not taken; the sink goes on, and sends it again."""


class CommitError(SinkError):
    """The commit log cannot go on."""


class Fenced(CommitError):
    """Another driver has taken over this sink; this one must stop."""


class CommitUnknown(CommitError):
    """It is not known whether an entry was written."""


class LogDamaged(CommitError):
    """The log holds something that this version cannot read."""
