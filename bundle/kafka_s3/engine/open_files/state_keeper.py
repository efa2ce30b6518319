"""Where do a task's open files stay until the next task goes on with them? In one object below the sink's state, or nowhere."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.open_files import OpenFiles, Output
from kafka_s3.engine.open_files.open_state import (
    StateBytes,
    StateContent,
    StateUnusable,
    check_state,
    check_uploads,
    opened_state,
)
from kafka_s3.engine.open_files.pausing import paused_files, resumed_files
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.tasks import Assignment, OpenState
from kafka_s3.objects.format import CannotPause, Paused


@dataclass(frozen=True, slots=True)
class Handover:
    """What one task leaves to the next: the open files, and the records read and skipped since the frontier."""

    open: OpenFiles
    examined: Paused
    skipped: Paused


@dataclass(frozen=True, slots=True)
class StatePlace:
    """For which driver's epoch files are kept, above which frontier, and the first offset that was not read."""

    epoch: int
    frontier: int
    examined: int


@dataclass(frozen=True, slots=True)
class StateKeeper:
    """Keeps open files for one assignment, under the fingerprint of the pipeline's configuration."""

    assignment: Assignment
    paths: StatePaths
    fingerprint: str

    def keep(self, kept: Handover, output: Output, place: StatePlace) -> OpenState:
        """Writes an object of its own. Raises CannotPause, StorageError, LocalDiskError."""
        tp, held = self.assignment.topic_partition, StateBytes(output.folder)
        files = paused_files(kept.open, held)
        sent = [upload for upload in kept.open.uploads() if upload.id is not None]
        uploads = [[upload.key, upload.id] for upload in sent]
        begun = [[upload.key, upload.id] for upload in sent if not upload.inherited]
        beside = {"examined_records": kept.examined, "skipped": kept.skipped}
        content = StateContent(
            {**self._facts(place), "uploads": uploads, "begun": begun, "open": files, **beside}, held
        )
        key = self.paths.open_state(tp, epoch=place.epoch, offset=place.examined, unique=uuid.uuid4().hex)
        output.store.put(key, content)
        return OpenState(key, len(content), place.epoch, place.frontier, place.examined)

    def resumed(self, state: OpenState, output: Output) -> Handover:
        """What a state holds, open again. Raises StateUnusable, StorageUnavailable, LocalDiskError."""
        try:
            with opened_state(output.store, state, output.folder) as document:
                check_state(document, self._facts(StatePlace(state.epoch, self.assignment.start, state.examined)))
                if state.epoch != self.assignment.keep:  # of an earlier driver: who knows what happened since
                    check_uploads(((key, upload_id) for key, upload_id in document["uploads"]), output.store)
                open_files = resumed_files(document["open"], output, self.assignment.topic_partition)
                return Handover(open_files, document["examined_records"], document["skipped"])
        except ObjectMissing:
            raise StateUnusable("it is gone") from None
        except (KeyError, TypeError, ValueError, pa.ArrowException, CannotPause) as error:
            raise StateUnusable(f"it cannot be read ({type(error).__name__}: {error})") from error

    def _facts(self, place: StatePlace) -> dict[str, Any]:
        """What a state has to say of itself to be continued."""
        table = hashlib.sha256((self.assignment.table or "").encode()).hexdigest()
        return {
            "identity": self.fingerprint,
            "table": table,
            "topic_partition": list(self.assignment.topic_partition),
            **asdict(place),
        }
