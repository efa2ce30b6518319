"""A clock that goes when a test says so."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Its unit is that of who asks it: seconds or milliseconds."""

    now: float = 0

    def __call__(self) -> float:
        return self.now
