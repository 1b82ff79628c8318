"""Timelines of ids alone, with their content from the app's own database, in one query."""

import sqlite3
from typing import Any

from fanfold_client import Fanfold


def page(api: Fanfold, articles: sqlite3.Connection, **where: Any) -> dict[str, Any]:
    """One page of a user's timeline, newest first: `articles` as rows of that table.

    What the database has no more is left out; so deleting a row hides it everywhere. With `next`
    as `before`, and `previous` as `after`, the pages go on, also behind one that shows nothing.
    """
    found = api.timeline.page(hydrate=False, **where)
    ids = [entry["ref_id"] for entry in found["entries"]]
    marks = ", ".join("?" * len(ids))
    query = f"SELECT id, title FROM articles WHERE id IN ({marks})"
    titles = dict(articles.execute(query, ids).fetchall()) if ids else {}
    shown = [{"id": each, "title": titles[each]} for each in ids if each in titles]
    return {"articles": shown, "next": found["next"], "previous": found["previous"]}
