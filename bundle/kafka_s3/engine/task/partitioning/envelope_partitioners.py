"""Into which directory does a record go by its key or its headers, and by fields and time together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import Longs, Nulls
from kafka_s3.engine.task.partitioning.field_partitioner import (
    DirectoryForm,
    FieldPartitioner,
    Schemaless,
    ValueDirectories,
    unplaced,
)
from kafka_s3.engine.task.partitioning.partitioners import Encoded, TimePartitioner, distinct
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

WHOLE_KEY = "key"


class HeaderPartitioner:
    """One directory per distinct texts of some headers: `name=text`, by the last header of each name; `null` where there is none."""

    uses_time = False

    def __init__(self, names: Sequence[str], *, delimiter: str, encoding: str) -> None:
        self._names = names
        self._values = ValueDirectories(names, delimiter, encoding, DirectoryForm.NAMED)

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run that comes with its headers."""
        rows = run.placed_by[Role.HEADER].values.objects() if Role.HEADER in run.placed_by else [None] * len(run)
        texts = [{header["key"]: header["value"] for header in row or ()} for row in rows]
        return self._values.encoded(
            [_texts(self._values, run, [row.get(name) for row in texts], name) for name in self._names]
        )

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True


class KeyPartitioner:
    """One directory per distinct key, `key=<text>`, or per distinct values of some of its fields, `name=value`."""

    uses_time = False

    def __init__(self, names: Sequence[str], *, delimiter: str, encoding: str) -> None:
        self._fields = FieldPartitioner(names, delimiter=delimiter, schemaless=Schemaless.LOOK_UP, encoding=encoding)
        self._whole = None if names else ValueDirectories([WHOLE_KEY], delimiter, encoding, DirectoryForm.NAMED)

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run that comes with its keys; a key without a text form, like a struct or bytes, is a failure."""
        keys = run.placed_by.get(Role.KEY, Sidecar(Nulls(len(run)), None))
        if self._whole is None:
            return self._fields.encode(
                topic_partition, Run(run.offsets, run.timestamps, keys.values, keys.schema), times
            )
        return self._whole.encoded([_texts(self._whole, run, keys.values.objects(), WHOLE_KEY)])

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True


def _texts(directories: ValueDirectories, run: Run, items: Sequence[Any], name: str) -> list[Any]:
    texts = [directories.text(item, name) for item in items]
    return [t if isinstance(t, str) else unplaced(int(run.offsets[row]), t[0]) for row, t in enumerate(texts)]


class FieldAndTimePartitioner:
    """The directories of some fields, and below each those of time buckets: what the widely used plugin of that name does."""

    uses_time = True

    def __init__(self, fields: FieldPartitioner, time: TimePartitioner, *, delimiter: str) -> None:
        self._fields = fields
        self._time = time
        self._delimiter = delimiter

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The fields' directory and the bucket's."""
        fields = self._fields.encode(topic_partition, run, times)
        buckets = self._time.encode(topic_partition, run, times)
        pairs = fields.codes.astype(np.int64) * len(buckets.names) + buckets.codes
        pairs[fields.codes < 0] = -1
        known, firsts, codes = np.unique(pairs, return_index=True, return_inverse=True)
        order = [place for place in np.argsort(firsts) if known[place] >= 0]
        ranks = np.full(len(known), -1, np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        found = (divmod(int(known[place]), len(buckets.names)) for place in order)
        names = [f"{fields.names[field]}{self._delimiter}{buckets.names[bucket]}" for field, bucket in found]
        return distinct(Encoded(ranks[codes], names, fields.failures))

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True
