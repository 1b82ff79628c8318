"""Virtual time: a clock that stands still until it is advanced."""

from __future__ import annotations

from dataclasses import dataclass

# 2026-11-20T18:00:00Z, so that times look plausible.
START_MS = 1_795_197_600_000


@dataclass
class Clock:
    """`elapsed` are the seconds since `start_ms`, which is in milliseconds since the epoch."""

    start_ms: int = START_MS
    elapsed: float = 0.0

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.start_ms / 1000 + self.elapsed

    def now_ms(self) -> int:
        return self.start_ms + int(self.elapsed * 1000)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.elapsed

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("Time does not go back.")
        self.elapsed += seconds

    def advance_to(self, seconds: float) -> None:
        """Let time pass until `seconds` since the start, unless that is past."""
        self.elapsed = max(self.elapsed, seconds)
