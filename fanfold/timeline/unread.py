"""How far a reader has read, and how much is above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanfold.contract import MAX_UNREAD
from fanfold.ids import split_sort_key
from fanfold.timeline import paging
from fanfold.timeline.paging import Asked
from fanfold.timeline.visibility import PageFilter, Visibility, ids_alone, shown_since


@dataclass(frozen=True)
class UnreadCount:
    """The use case behind the routes that read the marker."""

    visibility: Visibility

    def marker(self, user_id: str) -> dict[str, str | None]:
        """The entry up to which the user has read, by the fields that name it; or nulls."""
        stored = self.visibility.readers.get(user_id).marker
        published_at, ref_id = split_sort_key(stored) if stored else (None, None)
        return {"published_at": published_at, "ref_id": ref_id}

    def count(self, user_id: str) -> dict[str, Any]:
        """How many entries above the marker the timeline shows, within the bounds of a page.

        Retracted posts count, because posts are not read. Raises `TryLater`.
        """
        page_filter = PageFilter(self.visibility, user_id)
        page_filter.begin()
        reader = page_filter.reader
        assert reader is not None
        floor = max(reader.marker, shown_since(self.visibility.retention_days))
        page = paging.page(
            page_filter.source,
            page_filter.over(ids_alone),
            Asked(MAX_UNREAD + 1),
            floor=floor,
            now=floor,
            visible=page_filter.unmarked,
        )
        unread = len(page.entries)
        return {
            "unread": min(unread, MAX_UNREAD),
            "more": unread > MAX_UNREAD or page.is_partial,
        }
