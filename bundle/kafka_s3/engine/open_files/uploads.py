"""How does a file's content get into the bucket without being seen? As the parts of a multipart upload that is left uncompleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.engine.open_files.spill import Spilled, SpillFile, read_through, spilled
from kafka_s3.engine.open_files.states import StateBytes
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.files import Upload
from kafka_s3.objects.format import Paused
from kafka_s3.store.store import ObjectStore, begin_upload

LARGE_PIECE: Final = 64 << 10
PARTS_OF_A_SIZE: Final = 1000


@dataclass(slots=True, eq=False)
class FileUpload:
    """One object on its way: bytes go in, full parts go out, the rest waits in memory or, when that is short, on local disk.

    `id` and `token` are the upload's, None and blank before the first part. Where it is `inherited` another task began it, and it may still
    be continued from that task's state.
    """

    store: ObjectStore
    key: str
    part_size: int = field(kw_only=True)
    id: str | None = field(default=None, init=False)
    token: str = field(default="", init=False)
    inherited: bool = field(default=False, init=False)
    _etags: list[str] = field(default_factory=list, init=False)
    _sent: int = field(default=0, init=False)
    _waiting: list[Bytes] = field(default_factory=list, init=False)
    _waiting_bytes: int = field(default=0, init=False)
    _spilled: list[Spilled] = field(default_factory=list, init=False)
    _spilled_bytes: int = field(default=0, init=False)

    @classmethod
    def resumed(cls, store: ObjectStore, paused: Paused, *, part_size: int) -> FileUpload:
        """Goes on with the upload of another task; what waits on local disk stays there. Raises KeyError, TypeError where it is none."""
        upload = cls(store, paused["key"], part_size=part_size)
        upload.id, upload.token = paused["id"], paused["token"]
        upload._etags, upload._sent = list(paused["parts"]), paused["sent"]
        waiting = paused["waiting"]
        if isinstance(waiting, Spilled):
            upload._spilled.append(waiting.file.share(waiting.begin, waiting.end))
            upload._spilled_bytes = waiting.size
        else:
            upload.add(waiting)
        upload.inherited = paused["id"] is not None
        return upload

    def pause(self, content: StateBytes) -> Paused:
        """What another task needs to go on: the parts sent, and the bytes that wait, which become part of the state's content."""
        waiting = content.add([*self._spilled, *self._waiting])
        sent = {"id": self.id, "token": self.token, "parts": self._etags, "sent": self._sent}
        return {"key": self.key, "waiting": waiting, **sent}

    def add(self, data: Bytes) -> None:
        """Takes bytes, which nobody changes any more; sends every part that is full."""
        while self._spilled_bytes + self._waiting_bytes + len(data) >= self._part_bytes:
            room = self._part_bytes - self._spilled_bytes - self._waiting_bytes
            self._keep(memoryview(data)[:room])
            self._send()
            data = bytes(memoryview(data)[room:])  # a view would hold all of it
        self._keep(data)

    @property
    def _part_bytes(self) -> int:
        """The size of the next part. S3 takes 10,000 parts: each thousand are twice as large as those before."""
        return self.part_size << (len(self._etags) // PARTS_OF_A_SIZE)

    def _keep(self, data: Bytes) -> None:
        """Large pieces wait as they are, small ones are put behind each other."""
        self._waiting_bytes += len(data)
        if len(data) >= LARGE_PIECE:
            self._waiting.append(data)
        elif self._waiting and isinstance(self._waiting[-1], bytearray):
            self._waiting[-1] += data
        elif len(data):
            self._waiting.append(bytearray(data))

    def in_memory(self) -> int:
        """Bytes that wait in memory."""
        return self._waiting_bytes

    def spill(self, into: SpillFile) -> None:
        """Moves the waiting bytes to local disk. Raises LocalDiskError."""
        if not self._waiting:
            return
        self._spilled.append(spilled(into, self._waiting, f"{self._waiting_bytes} bytes of {self.key}"))
        self._spilled_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0

    def finish(self) -> Upload:
        """Sends the last part, even an empty one, and gives the upload for the commit entry. Nothing is visible yet."""
        if self._spilled_bytes or self._waiting or not self._etags:
            self._send()
        assert self.id is not None
        return Upload(self.key, self.id, tuple(self._etags), self._sent, self.token, self.inherited)

    def abort(self) -> None:
        """Drops what waits, and the upload unless it is inherited."""
        self._drop()
        if self.id is not None and not self.inherited:
            self.store.abort_upload(self.key, self.id)

    def _drop(self) -> None:
        for piece in self._spilled:
            piece.file.drop()
        self._waiting, self._waiting_bytes, self._spilled, self._spilled_bytes = [], 0, [], 0

    def _send(self) -> None:
        """Sends all that waits as one part. Raises OSError where local disk cannot be read."""
        if self.id is None:
            begun = begin_upload(self.store, self.key)
            self.id, self.token = begun.id, begun.token
        part = _Part((*self._spilled, *self._waiting), self._spilled_bytes + self._waiting_bytes)
        self._etags.append(self.store.upload_part(self.key, self.id, len(self._etags) + 1, part))
        self._sent += len(part)
        self._drop()


@dataclass(frozen=True, slots=True)
class _Part:
    """What waits, which is read while it is sent (`store.store.Streamed`): behind each other in memory it would take that much again."""

    waiting: tuple[Bytes | Spilled, ...]
    size: int

    def __len__(self) -> int:
        return self.size

    def pieces(self) -> Iterator[Bytes]:
        """All of it, from the beginning. Raises OSError."""
        return read_through(self.waiting)


def upload_whole(store: ObjectStore, key: str, content: bytes, *, part_size: int) -> Upload:
    """A small object, uploaded and not yet published."""
    upload = FileUpload(store, key, part_size=part_size)
    upload.add(content)
    return upload.finish()
