"""How often a publisher publishes, counted in its row of the publishers table.

A post takes one update of one write unit, and a second one while the publisher is faster than the
rate refills. A post is counted once, even if its update or its publish is repeated, as long as no
other post of the publisher was counted in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import rates
from fanfold.aws.dynamodb import update_or_read
from fanfold.aws.items import Item, expressions, get_number, get_text, number, text
from fanfold.rates import Rate

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_IS_ANOTHER = "(attribute_not_exists(#last_post) OR #last_post <> :last_post)"
_IS_AT_REST = "(attribute_not_exists(#posts_until_ns) OR #posts_until_ns <= :now)"


@dataclass(frozen=True)
class PostCounts:
    """`posts_until_ns` is when, since the epoch, the counted posts no longer use up the rate."""

    client: DynamoDBClient
    table: str
    rate: Rate

    def count(self, publisher_id: str, ref_id: str, *, now_ms: int) -> int:
        """Count a post and return 0; over the rate, do not count it and return how long to wait.

        Most publishers are at rest, so that is tried first, without reading. Neither update depends
        on the exact row: those of many posts at once do not fail each other.
        """
        rest = number(self.rate.after(0, now_ms))
        seen = self._update(
            publisher_id,
            sets={"posts_until_ns": rest, "last_post": text(ref_id)},
            condition=f"{_IS_ANOTHER} AND {_IS_AT_REST}",
            values={":now": number(rates.at(now_ms))},
        )
        if seen is None or self._is_counted(seen, ref_id):
            return 0
        if wait := self._wait(seen, now_ms):
            return wait
        seen = self._update(
            publisher_id,
            sets={"last_post": text(ref_id)},
            adds={"posts_until_ns": number(self.rate.interval_ns)},
            condition=f"{_IS_ANOTHER} AND #posts_until_ns <= :room",
            values={":room": number(self.rate.room(now_ms))},
        )
        if seen is None or self._is_counted(seen, ref_id):
            return 0
        return self._wait(seen, now_ms)

    def _wait(self, seen: Item, now_ms: int) -> int:
        return self.rate.wait_ms(get_number(seen, "posts_until_ns"), now_ms)

    @staticmethod
    def _is_counted(seen: Item, ref_id: str) -> bool:
        return get_text(seen, "last_post") == ref_id

    def _update(self, publisher_id: str, **clauses: Any) -> Item | None:
        """Update the row; if the condition refuses that, return the row."""
        key = {"publisher_id": text(publisher_id)}
        return update_or_read(self.client, self.table, key, expressions(**clauses))
