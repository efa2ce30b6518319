"""What are the objects of one task called? As those of its topic, or of another one's; that of a file which is made again keeps its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_s3.connect.naming.keys import ObjectNames, RewrittenNames
from kafka_s3.connect.records.runs import Run
from kafka_s3.model.files import Role
from kafka_s3.model.tasks import Assignment
from kafka_s3.objects.format import Format


@dataclass(frozen=True, slots=True)
class TaskNames:
    """The names of a task's objects; `routed` gives those of the topics to which transforms send records, None where none does."""

    assignment: Assignment
    own: ObjectNames
    routed: Callable[[str], ObjectNames] | None
    formats: Mapping[Role, Format]

    def of(self, topic: str | None = None) -> ObjectNames:
        """The names of the topic's objects, or of those of the topic to which a transform sends records."""
        only, deliveries = self.assignment.only, self.assignment.deliveries
        names = self._of_topic(topic)
        if only is None:
            return names.at_time(max((delivery.now_ms for delivery in deliveries), default=0))
        if only.role in self.formats:
            return RewrittenNames(names, self.formats[only.role].extension, only.key)
        return RewrittenNames(names, self.formats[Role.VALUE].extension, self.assignment.data_key or "")

    def belongs(self, run: Run) -> bool:
        """Whether the file that is made again is one of the run's topic: then its key, or that of its values, is of its names."""
        only = self.assignment.only
        assert only is not None
        names = self._of_topic(run.topic).with_time_of(only.key)
        keys = (
            names.key(only.topic_partition, only.encoded_partition, offset=only.first_offset, extension=form.extension)
            for form in self.formats.values()
        )
        return only.key in keys

    def _of_topic(self, topic: str | None) -> ObjectNames:
        return self.own if topic is None or self.routed is None else self.routed(topic)
