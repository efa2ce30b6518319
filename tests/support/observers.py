"""Observers that keep what a sink tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_s3.model.protocols import Observer, RoundSummary


@dataclass
class Warnings(Observer):
    """What the sink and its followers warned of."""

    texts: list[str] = field(default_factory=list)

    def warned(self, text: str) -> None:
        self.texts.append(text)

    def follower_warned(self, text: str) -> None:
        self.texts.append(text)


@dataclass
class Told(Warnings):
    """What the sink warned of, and its rounds."""

    rounds: list[RoundSummary] = field(default_factory=list)

    @property
    def read(self) -> int:
        """How many records all rounds read."""
        return sum(done.read for done in self.rounds)

    def round_done(self, done: RoundSummary) -> None:
        self.rounds.append(done)
