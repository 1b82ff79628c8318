"""What a worker reads before it delivers: the ledger's row, the post, and the publisher's level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fanfold import clock
from fanfold.aws import dynamodb
from fanfold.aws.items import Item
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import Fanout, check
from fanfold.fanout.row import from_item as fanout_of
from fanfold.follows import follower_estimate
from fanfold.follows.edges_table import EdgesTable, page_of
from fanfold.follows.publishers_table import PublishersTable, shards_of
from fanfold.follows.ring_reader import EdgePage
from fanfold.ids import is_id
from fanfold.timeline.posts import Post, Posts
from fanfold.timeline.posts import from_item as post_of

if TYPE_CHECKING:
    from fanfold.aws.threads import Together


class Found(NamedTuple):
    """The rows of a fan-out, read after its message was received; None where there is none."""

    fanout: Fanout | None
    post: Post | None
    level: int  # of the publisher's write shards
    first_page: EdgePage | None = None  # of its followers, if that was read as well


@dataclass(frozen=True)
class Lookup:
    """One call instead of three in a row, all of them consistent.

    A door writes a fan-out and its post before it sends a command, so no post is missing only
    because both were read at once. SWEEP asks about a fan-out whose post may be stored later
    (`Fanout.may_be_stored`). And no edge acknowledged before the post was accepted lies above the
    level that is read now.

    The fan-out's row names the publisher. To read the publisher's row in the same call, workers
    take its id from the message's group; if that was wrong, the row is read afterwards.
    """

    ledger: Ledger
    posts: Posts
    publishers: PublishersTable
    edges_table: EdgesTable
    together: Together

    def find(self, fanout_id: str, publisher_id: str) -> Found:
        """The rows of a fan-out, whose publisher is probably this one."""
        return self._found(self._wanted(fanout_id, publisher_id), publisher_id)

    def find_with_followers(self, fanout_id: str, publisher_id: str) -> Found:
        """The same, with the first page of the publisher's followers read beside them."""
        wanted = self._wanted(fanout_id, publisher_id)
        if not is_id(publisher_id):
            return self._found(wanted, publisher_id)
        followers = self.edges_table.page_request(
            publisher_id, follower_estimate.FIRST_READ, follower_estimate.SAMPLE_EDGES
        )
        rows, page = self.together(("BatchGetItem", {"RequestItems": wanted}), ("Query", followers))
        found = self._found(wanted, publisher_id, rows)
        is_theirs = found.fanout is not None and found.fanout.publisher_id == publisher_id
        return found._replace(first_page=page_of(page) if is_theirs else None)

    def _wanted(self, fanout_id: str, publisher_id: str) -> dict[str, Any]:
        wanted = {
            self.ledger.table: self.ledger.wanted(fanout_id),
            self.posts.table: self.posts.wanted(fanout_id),
        }
        if is_id(publisher_id):
            wanted[self.publishers.table] = self.publishers.wanted(publisher_id)
        return wanted

    def _found(self, wanted: dict[str, Any], publisher_id: str, answer: Any = None) -> Found:
        rows = dynamodb.rows(self.ledger.client, wanted, answer)
        fanout, post = _one(rows[self.ledger.table]), _one(rows[self.posts.table])
        if fanout is None:
            return Found(None, None, 0)
        seen = fanout_of(fanout)
        check(seen, now_ms=clock.now_ms())
        if seen.publisher_id == publisher_id:
            shards = shards_of(_one(rows.get(self.publishers.table, [])) or {})
        else:
            shards = self.publishers.shards(seen.publisher_id)
        return Found(seen, post_of(post) if post else None, shards.level)


def _one(items: list[Item]) -> Item | None:
    return next(iter(items), None)
