"""What does one check say?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from kafka_s3.errors import SinkError


class Status(StrEnum):
    """How bad it is: a sink can run with warnings, and not with a failure."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report: where was looked, what was tried, what came of it, and what to do. Free of secrets."""

    area: str
    tried: str
    status: Status
    detail: str = ""
    way_out: str = ""

    def __str__(self) -> str:
        """What was tried, what came of it and the way out, for one line."""
        said = " ".join(part for part in (self.detail, self.way_out) if part)
        return f"{self.area}: {self.tried}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True)
class Area:
    """Makes the findings of one area."""

    name: str

    def ok(self, tried: str, detail: str = "", way_out: str = "") -> Finding:
        """All is well; the way out is advice."""
        return Finding(self.name, tried, Status.OK, detail, way_out)

    def warning(self, tried: str, detail: str, way_out: str = "") -> Finding:
        """A sink runs, but something may go wrong later."""
        return Finding(self.name, tried, Status.WARNING, detail, way_out)

    def failed(self, tried: str, detail: str, way_out: str = "") -> Finding:
        """A sink cannot run, or loses records."""
        return Finding(self.name, tried, Status.FAILED, detail, way_out)

    def tried(self, tried: str, request: Callable[[], str | None], *, way_out: str = "") -> Finding:
        """What became of a request: its text as detail, or its error and the way out."""
        try:
            return self.ok(tried, request() or "")
        except SinkError as error:
            return self.failed(tried, str(error), way_out)


def worst(findings: Iterable[Finding]) -> Status:
    """The worst status, ok where there is no finding."""
    found = {finding.status for finding in findings}
    return next((status for status in (Status.FAILED, Status.WARNING) if status in found), Status.OK)
