"""The outbox: an index of the posts table, with each publisher's own posts by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanfold import names
from fanfold.aws.items import text
from fanfold.ids import split_sort_key
from fanfold.timeline.entries import Entry, checked, found, range_request
from fanfold.timeline.page_reads import Range

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True)
class Outbox:
    """Read eventually, as all global indexes are: it follows its table within moments."""

    client: DynamoDBClient
    posts_table: str

    def newest(
        self, publisher_id: str, within: Range, *, before: str | None, limit: int
    ) -> tuple[list[Entry], bool]:
        """At most `limit` posts, newest first, and whether more may follow.

        They are older than the sort key `before`, if it is given; it lies within the range.
        """
        return self._query(publisher_id, within, start=before, limit=limit, is_ascending=False)

    def oldest(
        self,
        publisher_id: str,
        within: Range,
        *,
        after: str | None,
        limit: int,
        is_consistent: bool,
    ) -> tuple[list[Entry], bool]:
        """The oldest first, newer than `after`. A global index has no consistent reads."""
        del is_consistent
        return self._query(publisher_id, within, start=after, limit=limit, is_ascending=True)

    def _query(
        self, publisher_id: str, within: Range, *, start: str | None, limit: int, is_ascending: bool
    ) -> tuple[list[Entry], bool]:
        key = None
        if start is not None:
            ref_id = split_sort_key(start)[1]
            key = {
                "ref_id": text(ref_id),
                "publisher_id": text(publisher_id),
                "sort_key": text(start),
            }
        request = range_request("publisher_id", publisher_id, within, start=key, limit=limit)
        answer = self.client.query(
            TableName=self.posts_table,
            IndexName=names.OUTBOX.name,
            ScanIndexForward=is_ascending,
            **request,
        )
        entries, has_more = found(answer)
        return checked(entries, within, start=start, is_ascending=is_ascending), has_more
