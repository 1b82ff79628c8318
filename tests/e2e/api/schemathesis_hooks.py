"""What schemathesis cannot know of a request that is valid by the document."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import schemathesis  # type: ignore[import-not-found,unused-ignore]

from fanfold import times
from fanfold.errors import BadInput
from fanfold.settings import Settings


@schemathesis.hook  # type: ignore[untyped-decorator,unused-ignore]
def filter_body(context: Any, body: Any) -> bool:
    """Leave out posts that are older than the retention: the document cannot say what day it is."""
    published_at = body.get("published_at") if isinstance(body, dict) else None
    if not isinstance(published_at, str):
        return True
    oldest = datetime.now(UTC) - timedelta(days=Settings.retention_days)
    try:
        return times.to_ms(published_at) > 1000 * oldest.timestamp()
    except BadInput:
        return True
