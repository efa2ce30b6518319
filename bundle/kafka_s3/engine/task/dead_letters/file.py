"""How do a task's dead letters get into their file? Line by line into an upload: none of them is kept in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.dead_letters import DeadLetter, LetterLines
from kafka_s3.model.deflate import ENGINE_BYTES
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.store.store import ObjectStore


class DeadLetterFile:
    """The dead letter file of one task; `key` names it by the offset of its first letter. No letter, no upload."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        store: ObjectStore,
        key: Callable[[int], str],
        *,
        part_size: int,
        folder: Path,
    ) -> None:
        self._topic_partition = topic_partition
        self._store = store
        self._key = key
        self._part_size = part_size
        self._folder = folder
        self._lines = LetterLines()
        self._upload: FileUpload | None = None
        self._offsets: list[Longs] = []
        self._times: tuple[int, int] | None = None
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """How many letters there are."""
        return self._reasons.total()

    def add(self, letters: list[DeadLetter]) -> None:
        """Takes letters in the order of their offsets, all behind those of the last call."""
        if self._upload is None:
            self._upload = FileUpload(self._store, self._key(letters[0].offset), part_size=self._part_size)
        for letter in letters:
            self._upload.add(self._lines.line(letter))
            self._note(letter)
        self._offsets.append(np.array([letter.offset for letter in letters], np.int64))

    def memory(self) -> int:
        """Bytes held in memory."""
        held = sum(offsets.nbytes for offsets in self._offsets)
        return held if self._upload is None else held + ENGINE_BYTES + self._upload.in_memory()

    def release(self) -> None:
        """Moves what waits to local disk. Raises LocalDiskError."""
        if self._upload is not None:
            self._upload.spill(SpillFile(self._folder))

    def finish(self) -> DataFile | None:
        """The log's row of the file, once its upload has all its parts; None where there are no letters."""
        if self._upload is None:
            return None
        self._upload.add(self._lines.end())
        sent, (low, high) = self._upload.finish(), self._times or (None, None)
        first, last = int(self._offsets[0][0]), int(self._offsets[-1][-1])
        return DataFile(
            sent.key, *self._topic_partition, first, last, len(self), sent.size, low, high, encoded_partition="", schema="",
            format="dead_letters", reason=Reason.DEAD_LETTER, upload=sent, role=Role.DEAD_LETTER,
        )  # fmt: skip

    def abort(self) -> None:
        """Drops the upload."""
        if self._upload is not None:
            self._upload.abort()

    @property
    def offsets(self) -> OffsetSet:
        """The offsets of the letters."""
        return OffsetSet.of(offset for offsets in self._offsets for offset in offsets.tolist())

    @property
    def stages(self) -> dict[str, int]:
        """How many letters there are of each stage."""
        found: Counter[str] = Counter()
        for (stage, _), count in self._reasons.items():
            found[stage] += count
        return dict(found)

    @property
    def commonest(self) -> str:
        """The commonest exception with its number and an example, for an error text; blank where there are no letters."""
        if not self._reasons:
            return ""
        ((reason, count),) = self._reasons.most_common(1)
        return f"{count} times {reason[1]}, for example {self._examples[reason]}."

    def _note(self, letter: DeadLetter) -> None:
        reason, at = (letter.stage, letter.exception), letter.timestamp
        self._reasons[reason] += 1
        self._examples.setdefault(reason, str(letter))
        if at is not None:
            low, high = self._times or (at, at)
            self._times = min(low, at), max(high, at)
