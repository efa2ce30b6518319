"""Observers that keep what a sink tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_s3.model.observer import Silent


@dataclass
class Warnings(Silent):
    """What the sink warned of."""

    texts: list[str] = field(default_factory=list)

    def warned(self, text: str) -> None:
        self.texts.append(text)
