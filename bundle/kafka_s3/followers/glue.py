"""How does the Glue Data Catalog come to know a sink's topics? It follows the log: tables get columns, directories become partitions.

Each step may be done again: a table that is as it should be is left alone, a partition that is there is no error. How far it has come is
noted beside the log after each batch of entries, so that a crash costs a batch once more, and a catalog may be named at any time. A table
that is refused keeps a place of its own, and is tried again from there now and then: until it is mended a try asks the catalog alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.ddl.statements import glue_table
from kafka_s3.followers.ddl.table import ExternalTable, NoTable, TopicObjects, topics_of
from kafka_s3.followers.progress import TablePositions, note_positions, read_positions
from kafka_s3.model.errors import ObjectArchived, ObjectMissing, TableError, TableRefused, TableUnavailable

BATCH: Final = 100
"""So many entries are taken together."""
PATIENCE_MS: Final = 60_000
"""How long a table that was refused is left alone."""


@dataclass(slots=True)
class GlueTables:
    """The follower. `table_of` looks the columns of objects up; it raises NoTable, and ObjectMissing where they are gone since."""

    catalog: GlueCatalog
    table_of: Callable[[TopicObjects], ExternalTable]
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    name: str = "Glue tables"
    _positions: TablePositions | None = None
    _waits: dict[str, int] = field(default_factory=dict)
    _wanted: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        """Whether a table that was refused may be tried again. Asks nobody."""
        now = self.clock_ms()
        return any(until <= now for until in self._waits.values())

    def catch_up(self, log: CommitLog) -> None:
        """Takes in every entry since the last one noted; a refused table holds up no other topic's. Raises TableError, StorageError."""
        key, refused = log.paths.follower("glue"), list[TableRefused]()
        positions = self._positions = self._positions or read_positions(log.store, key)
        for batch in _batches(log.entries_since(positions.version)):
            for topic, objects in topics_of(batch).items():
                if topic not in positions.behind and self._refuses(topic, partial(self._take, objects), refused):
                    positions.behind[topic] = positions.version
            positions.version = batch[-1].version
            note_positions(log.store, key, positions)
        now = self.clock_ms()
        for topic in [topic for topic in positions.behind if self._waits.get(topic, 0) <= now]:
            if not self._refuses(topic, partial(self._ask_again, topic), refused):
                self._follow(topic, log, positions=positions, refused=refused)
                note_positions(log.store, key, positions)
        if refused:
            raise TableRefused(" ".join(map(str, refused)))

    def _ask_again(self, topic: str) -> None:
        """Raises TableRefused where the catalog's table is still not the topic's: known without the log, but for a new driver."""
        wanted = self._wanted.get(topic)
        known = None if wanted is None else self.catalog.table(wanted["Name"])
        if wanted is not None and known is not None:
            _check_same(known, wanted)

    def _follow(self, topic: str, log: CommitLog, *, positions: TablePositions, refused: list[TableRefused]) -> None:
        """Takes in what a table that was refused has missed, as far as it is not refused again."""
        for batch in _batches(log.entries_since(positions.behind[topic])):
            objects = topics_of(batch).get(topic)
            if objects is not None and self._refuses(topic, partial(self._take, objects), refused):
                return
            positions.behind[topic] = batch[-1].version
        del positions.behind[topic]

    def _refuses(self, topic: str, step: Callable[[], None], refused: list[TableRefused]) -> bool:
        """Whether the catalog refuses a step; then the topic's table waits."""
        self._waits.pop(topic, None)
        try:
            step()
        except TableRefused as error:
            refused.append(error)
            self._waits[topic] = self.clock_ms() + PATIENCE_MS
            return True
        return False

    def _take(self, objects: TopicObjects) -> None:
        """Brings one topic's table up to these objects; what it cannot show is a warning."""
        for problem in self._brought_up(objects):
            self.warn(f"{self.name}: topic {objects.topic}: {problem}")

    def _brought_up(self, objects: TopicObjects) -> Iterator[str]:
        try:
            table = self.table_of(objects)
        except (NoTable, ObjectMissing, ObjectArchived) as error:
            yield f"its table stays as it is: {error}"
            return
        wanted = self._wanted[objects.topic] = glue_table(table)
        known = self.catalog.table(table.name)
        if known is None:
            self.catalog.create(wanted)
        else:
            _check_same(known, wanted)
            merged, differing = merged_table(known, wanted)
            if merged != known:
                self.catalog.update(merged)
            yield from (f"column {name} has another type now; the table keeps the one it has" for name in differing)
        if table.keys and not table.delta:
            self.catalog.add_partitions(table.name, list(partitions(table, objects, wanted)))
        del self._wanted[objects.topic]


def _batches(entries: Iterable[CommitEntry]) -> Iterator[list[CommitEntry]]:
    left = iter(entries)
    while batch := list(islice(left, BATCH)):
        yield batch


def partitions(table: ExternalTable, objects: TopicObjects, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Glue's input of each directory's partition."""
    for encoded in objects.encoded_partitions:
        levels = encoded.strip("/").split("/")
        storage = {**wanted["StorageDescriptor"], "Location": f"{table.location}{encoded.strip('/')}/"}
        yield {"Values": [level.partition("=")[2] for level in levels], "StorageDescriptor": storage}


def merged_table(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The table with the columns of both and projections as wide as both, and the columns whose types differ: those stay as known."""
    columns = list(known["StorageDescriptor"].get("Columns", ()))
    types = {one["Name"].lower(): one["Type"] for one in columns}
    differing = []
    for one in wanted["StorageDescriptor"]["Columns"]:
        have = types.get(one["Name"].lower())
        if have is None:
            columns.append(one)
        elif have != one["Type"]:
            differing.append(one["Name"])
    parameters = _merged_parameters(known.get("Parameters", {}), wanted["Parameters"])
    return {
        **known,
        "Parameters": parameters,
        "StorageDescriptor": {**known["StorageDescriptor"], "Columns": columns},
    }, differing


def _merged_parameters(known: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The known parameters, with ranges of years and dates as wide as both. A width of digits that differs is none."""
    found = dict(known)
    for key, value in wanted.items():
        have = known.get(key)
        if key.endswith(".range") and have is not None and have != value:
            found[key] = _wider(have, value)
    for key in [key for key in found if key.endswith(".digits") and wanted.get(key) != found[key]]:
        del found[key]
    return found


def _wider(one: str, other: str) -> str:
    """A range that holds both; `first,last` as numbers or dates, of which NOW is the last."""
    (first, last), (begin, end) = one.split(",", 1), other.split(",", 1)
    low = min((first, begin), key=lambda text: (len(text), text))
    high = max((last, end), key=lambda text: (text == "NOW", len(text), text))
    return f"{low},{high}"


def _check_same(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises TableRefused where a table of that name is about other objects, or other directories."""
    here, there = wanted["StorageDescriptor"]["Location"], known["StorageDescriptor"].get("Location", "")
    if here.rstrip("/") != there.rstrip("/"):
        raise TableRefused(
            f"Glue's table {wanted['Name']} lies at {there}, the topic at {here}. Drop it, or set another glue.database.name."
        )
    keys = [[one["Name"].lower() for one in table.get("PartitionKeys", ())] for table in (known, wanted)]
    if keys[0] != keys[1]:
        raise TableRefused(
            f"Glue's table {wanted['Name']} has the partition keys {keys[0]}, the topic's directories are {keys[1]}. Drop the table: it is "
            "made again from the objects to come; to take in all, stop the sink and delete followers/glue.json of its state."
        )


AT_ONCE: Final = 100
"""Partitions of one request, by Glue's own limit."""
BUSY: Final = frozenset({
    "InternalServiceException", "OperationTimeoutException", "ThrottlingException", "ConcurrentModificationException",
    "ResourceNotReadyException",
})  # fmt: skip
RIGHTS: Final = (
    "kafka-s3 iam prints the rights that are needed; the database has to be there (aws glue create-database)."
)
_INPUT: Final = (
    "Name",
    "Description",
    "Owner",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "TableType",
    "Parameters",
)
T = TypeVar("T")


class GlueCatalog:
    """One database of the catalog, by a client of boto3.

    Methods raise TableUnavailable where Glue does not answer, TableRefused where it says no.
    """

    def __init__(self, database: str, client: Any) -> None:
        self._database = database
        self._client = client

    def table(self, name: str) -> dict[str, Any] | None:
        """A table in the form of Glue's table input, None where there is none."""
        try:
            found = self._client.get_table(DatabaseName=self._database, Name=name)["Table"]
        except self._client.exceptions.EntityNotFoundException as error:
            if "atabase" in str(error):
                raise self._meaning(error, name) from error
            return None
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error, name) from error
        return {key: found[key] for key in _INPUT if key in found}

    def create(self, table: Mapping[str, Any]) -> None:
        """Makes a table."""
        self._asked(lambda: self._client.create_table(DatabaseName=self._database, TableInput=table), table["Name"])

    def update(self, table: Mapping[str, Any]) -> None:
        """Puts a table in the place of the one that has its name; partitions stay."""
        self._asked(lambda: self._client.update_table(DatabaseName=self._database, TableInput=table), table["Name"])

    def add_partitions(self, name: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Adds partitions to a table; those that it has stay as they are."""
        for at in range(0, len(partitions), AT_ONCE):
            some = list(partitions[at : at + AT_ONCE])
            answer = self._asked(
                lambda some=some: self._client.batch_create_partition(  # type: ignore[misc]
                    DatabaseName=self._database, TableName=name, PartitionInputList=some
                ),
                name,
            )
            wrong = [
                one for one in answer.get("Errors", ()) if one["ErrorDetail"]["ErrorCode"] != "AlreadyExistsException"
            ]
            if wrong:
                reason = f"{wrong[0]['ErrorDetail']['ErrorCode']} for {'/'.join(wrong[0]['PartitionValues'])}"
                raise TableUnavailable(
                    f"AWS Glue did not take {len(wrong)} partitions of {self._database}.{name} ({reason})."
                )

    def _asked(self, request: Callable[[], T], name: str) -> T:
        try:
            return request()
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error, name) from error

    def _meaning(self, error: Exception, name: str) -> TableError:
        what = f"table {self._database}.{name}"
        if not isinstance(error, ClientError):
            return TableUnavailable(f"AWS Glue did not answer for {what} ({type(error).__name__}).")
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500 or status == 429 or code in BUSY:
            return TableUnavailable(f"AWS Glue failed for {what}, after all attempts ({code}).")
        return TableRefused(f"AWS Glue refused {what} ({code}). {RIGHTS}")
