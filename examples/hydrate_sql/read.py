"""Timelines of ids alone, with their content from the app's own database, in one query."""

import sqlite3
from typing import Any

from fanfold_client import Fanfold


def page(api: Fanfold, articles: sqlite3.Connection, **where: Any) -> list[dict[str, Any]]:
    """One page of a user's timeline, newest first, as rows of the table `articles`.

    What the database has no more is left out; so deleting a row hides it everywhere.
    """
    ids = [entry["ref_id"] for entry in api.timeline.page(hydrate=False, **where)["entries"]]
    if not ids:
        return []
    marks = ", ".join("?" * len(ids))
    rows = articles.execute(f"SELECT id, title FROM articles WHERE id IN ({marks})", ids)
    found = {row[0]: {"id": row[0], "title": row[1]} for row in rows}
    return [found[ref_id] for ref_id in ids if ref_id in found]
