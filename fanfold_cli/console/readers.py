"""The readers on the page: each polls for entries `after` its newest one, with back-off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fanfold import clock
from fanfold.answers import TimelineEntry
from fanfold_cli.console.views import ReaderView
from fanfold_cli.terminal import ExpectedError
from fanfold_client import Failed, Fanfold

# Pauses between polls: shorter while entries come; the longer shows a new one within two seconds.
SOON_SECONDS: Final = 0.5
LATE_SECONDS: Final = 1.5
SHOWN: Final = 5
# Ids that are not shown twice; repetitions come soon if at all.
REMEMBERED: Final = 1_000


@dataclass
class ConsoleReader:
    """One reader's newest entries. `open` signs the user in at the first poll."""

    user: str
    open: Callable[[str], Fanfold]
    entries: list[TimelineEntry] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    previous: str | None = None
    failure: str = ""
    read_at: float = 0.0
    pause: float = SOON_SECONDS
    due: float = 0.0
    _api: Fanfold | None = None

    def look(self, *, slowest: float = LATE_SECONDS) -> None:
        """Read new entries, unless it is too early; keep a failure as a sentence."""
        if clock.monotonic() < self.due:
            return
        try:
            now = clock.now_ms() / 1000
            news = self._news()
            self.failure, self.read_at = "", now
        except (Failed, ExpectedError) as error:
            news, self.failure = [], str(error)
        self.pause = SOON_SECONDS if news else min(slowest, self.pause * 2)
        self.due = clock.monotonic() + self.pause
        if news:
            self.seen.update(dict.fromkeys(each["ref_id"] for each in news))
            together = [*news, *self.entries]
            together.sort(key=lambda each: (each["published_at"], each["ref_id"]), reverse=True)
            self.entries = together[:SHOWN]
            for ref_id in list(self.seen)[:-REMEMBERED]:
                del self.seen[ref_id]

    def _news(self) -> list[TimelineEntry]:
        if self._api is None:
            self._api = self.open(self.user)
        timeline = self._api.timeline
        if self.previous is None:
            page = timeline.page(limit=SHOWN)
            self.previous = page["previous"]
            return page["entries"]
        found = []
        for page in timeline.newer(self.previous, have=self.seen):
            found += page["entries"]
            self.previous = page["previous"]
        return found

    def view(self) -> ReaderView:
        return ReaderView(
            user=self.user,
            read_at=self.read_at,
            entries=tuple(map(_shown, self.entries)),
            failure=self.failure,
        )


def _shown(entry: TimelineEntry) -> dict[str, str]:
    body: Any = entry.get("body") or {}
    text = next((body[name] for name in ("title", "text") if isinstance(body.get(name), str)), "")
    return {
        "ref_id": entry["ref_id"],
        "publisher_id": entry["publisher_id"],
        "at": entry["published_at"],
        "text": " ".join(text.split())[:100],
    }
