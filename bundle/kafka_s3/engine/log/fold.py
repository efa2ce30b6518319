"""What does the log say after its last entry? The sum of its entries, and the form in which a checkpoint keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from kafka_s3.engine.log.entry import FORMAT, PLAIN_FORMAT, CommitEntry, Progress, read_entry
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says after its last entry. A blank topic id: the topic was looked for, and was not in Kafka yet."""

    version: int = -1
    epoch: int = 0
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    cluster_id: str = ""

    def after(self, entry: CommitEntry) -> LogState:
        """The state after one more entry."""
        return LogState(
            version=entry.version,
            epoch=entry.epoch,
            progress={**self.progress, **entry.progress},
            topic_ids={**self.topic_ids, **entry.topic_ids},
            totals=self.totals.plus(entry.totals),
            cluster_id=entry.cluster_id or self.cluster_id,
        )

    def recounted(self, more_bytes: int) -> LogState:
        """The state after an entry was found to count so many bytes more."""
        return replace(self, totals=replace(self.totals, bytes=self.totals.bytes + more_bytes))

    @property
    def frontier(self) -> dict[TopicPartition, int]:
        """Per topic-partition the next offset to write."""
        return {tp: progress.frontier for tp, progress in self.progress.items()}

    def is_recreated(self, topic: str, topic_id: str) -> bool:
        """Whether a topic of this id is another one than the log knows by the name."""
        return (self.topic_ids.get(topic) or topic_id) != topic_id


def checkpoint_json(state: LogState, last: CommitEntry) -> bytes:
    """A checkpoint as stored: the state, and the last entry as it is."""
    whole = replace(last, progress=state.progress, topic_ids=state.topic_ids, cluster_id=state.cluster_id)
    document = {
        "format": FORMAT if last.waiting else PLAIN_FORMAT,
        "entry": json.loads(whole.to_json()),
        "last": json.loads(last.to_json()),
        "totals": asdict(state.totals),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def read_checkpoint(content: bytes, *, key: str) -> tuple[LogState, CommitEntry]:
    """State and last entry of a checkpoint. Raises LogDamaged with the key where it cannot be read, or is of a later version."""
    try:
        document = json.loads(content)
        if document.get("format", FORMAT) > FORMAT:
            raise LogDamaged(
                f"Checkpoint {key} has format {document['format']}; this version reads up to {FORMAT}. Upgrade kafka-s3 to go on."
            )
        whole = read_entry(json.dumps(document["entry"]).encode(), key=key)
        last = read_entry(json.dumps(document["last"]).encode(), key=key)
        totals = Totals(**document["totals"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Checkpoint {key} is damaged ({type(error).__name__}: {error}). Delete it: the commit entries say the same."
        ) from error
    state = LogState(whole.version, whole.epoch, dict(whole.progress), dict(whole.topic_ids), totals, whole.cluster_id)
    return state, last
