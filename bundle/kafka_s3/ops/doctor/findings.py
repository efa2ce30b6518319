"""What does one check say?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from kafka_s3.model.errors import SinkError


class CheckStatus(StrEnum):
    """How bad it is: a sink can run with warnings, and not with a failure."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of a report: where was looked, what was tried, what came of it, and what to do. Free of secrets."""

    area: str
    tried: str
    status: CheckStatus
    detail: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """What was tried, what came of it and the remedy, for one line."""
        text = " ".join(part for part in (self.detail, self.remedy) if part)
        return f"{self.area}: {self.tried}" + (f": {text}" if text else "")


@dataclass(frozen=True, slots=True)
class Area:
    """Makes the findings of one area."""

    name: str

    def ok(self, tried: str, detail: str = "", remedy: str = "") -> CheckResult:
        """All is well; the remedy is advice."""
        return CheckResult(self.name, tried, CheckStatus.OK, detail, remedy)

    def warning(self, tried: str, detail: str, remedy: str = "") -> CheckResult:
        """A sink runs, but something may go wrong later."""
        return CheckResult(self.name, tried, CheckStatus.WARNING, detail, remedy)

    def failed(self, tried: str, detail: str, remedy: str = "") -> CheckResult:
        """A sink cannot run, or loses records."""
        return CheckResult(self.name, tried, CheckStatus.FAILED, detail, remedy)

    def tried(self, tried: str, request: Callable[[], str | None], *, remedy: str = "") -> CheckResult:
        """What became of a request: its text as detail, or its error and the remedy."""
        try:
            return self.ok(tried, request() or "")
        except SinkError as error:
            return self.failed(tried, str(error), remedy)


def worst(findings: Iterable[CheckResult]) -> CheckStatus:
    """The worst status, ok where there is no finding."""
    found = {finding.status for finding in findings}
    return next((status for status in (CheckStatus.FAILED, CheckStatus.WARNING) if status in found), CheckStatus.OK)
