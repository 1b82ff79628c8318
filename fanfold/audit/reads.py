"""What an audit reads: eventually at first, and once more consistently what seems wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fanfold import clock
from fanfold.audit.rule import Look, Shown, owner_of
from fanfold.audit.sampling import Arc
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, Item, get_number, get_text, text
from fanfold.channels import following
from fanfold.fanout.row import CHANNEL, Fanout
from fanfold.fanout.row import from_item as fanout_of
from fanfold.follows import ring
from fanfold.follows.edges_table import edge_key, page_of
from fanfold.follows.follows_table import follow_of, is_of_list
from fanfold.follows.relation import Follow
from fanfold.follows.ring_reader import RingRead
from fanfold.ids import split_sort_key
from fanfold.names import EXPIRES_AT, FANOUTS, POSTS, READERS
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold.timeline.marks import Reader
from fanfold.timeline.page_reads import Range
from fanfold.timeline.posts import Post
from fanfold.timeline.posts import from_item as post_of
from fanfold.timeline.readers import reader_of
from fanfold.timeline.visibility import shown_since

if TYPE_CHECKING:
    from fanfold.channels.head import Head
    from fanfold.stores import Stores

Subject: TypeAlias = tuple[str, str]  # a post and a reader

# The newest entries of a timeline of which one is drawn: about a read unit.
ENTRIES = 40


class Pair(NamedTuple):
    """A post, as its row of the ledger said before the entry was read, and a reader."""

    fanout: Fanout
    user_id: str

    @property
    def subject(self) -> tuple[str, str]:
        """The post and the reader."""
        return self.fanout.fanout_id, self.user_id


@dataclass(frozen=True)
class Reads:
    """Raises `TryLater` where rows cannot be read; `stores` are those of a metered client."""

    stores: Stores
    is_consistent: bool = False  # what is read by key
    _levels: dict[str, int] = field(default_factory=dict)

    @property
    def consistent(self) -> Reads:
        """The same, consistently: at twice the price."""
        return replace(self, is_consistent=True)

    # Samples

    def count(self, table: str) -> int:
        """About how many items the table holds: DynamoDB counts them every six hours."""
        described = self.stores.client.describe_table(TableName=table)
        return described["Table"].get("ItemCount", 0)

    def fanouts(self, segment: int, segments: int) -> Iterator[Fanout]:
        """The fan-outs in one segment of the ledger, which has a row of SWEEP, too."""
        items = self._segment(self.stores.settings.fanouts_table, segment, segments)
        return (fanout_of(item) for item in items if "state" in item)

    def rows(self, segment: int, segments: int) -> Iterator[Follow]:
        """The rows of whole readers, with those that have ended."""
        table = self.stores.settings.following_table
        items = self._segment(table, segment, segments)
        return (follow_of(item) for item in items if not is_of_list(item))

    def rows_of(self, user_id: str) -> Iterator[Follow]:
        """All rows of one reader."""
        return self.stores.follows().rows_of(user_id)

    def _segment(self, table: str, segment: int, segments: int) -> Iterator[Item]:
        part = {"Segment": segment, "TotalSegments": segments}
        for page in dynamodb.pages(self.stores.client, TableName=table, **part):
            yield from page["Items"]

    def followers(self, publisher_id: str) -> Iterator[str]:
        """All followers of a publisher, read consistently."""
        level = self.stores.publishers.shards(publisher_id).level
        wanted = RingRead(level, ring.START, ring.END)
        for edges in self.stores.edges.edges(publisher_id, wanted):
            yield from map(ring.follower_of, edges)

    def follower_in(self, arc: Arc, publisher_id: str) -> str | None:
        """The first follower in an arc of the ring from its place on, at any level.

        Behind the last follower of the arc it is the first one, so that no arc is left out.
        """
        if publisher_id not in self._levels:
            shards = self.stores.publishers.shards(publisher_id, consistent=False)
            self._levels[publisher_id] = shards.level
        for low, high in ((arc.place, arc.high), (arc.low, arc.place)):
            wanted = RingRead(self._levels[publisher_id], low, high, low_water=1)
            while reads := list(iter(wanted.next_read, None)):
                for read in reads:
                    request: Any = self.stores.edges.page_request(publisher_id, read, 1)
                    answer = self.stores.client.query(**request | {"ConsistentRead": False})
                    wanted.page_read(read, page_of(answer))
                if edges := wanted.take():
                    return ring.follower_of(edges[0])
        return None

    def posts_of(
        self, publisher_id: str, since: str, until: str | None, *, limit: int = 1
    ) -> list[str]:
        """The `ref_id` of the publisher's newest posts in a range of times."""
        within = Range(since, until)
        entries, _ = self.stores.outbox.newest(publisher_id, within, before=None, limit=limit)
        return list(map(_ref_id, entries))

    def fanouts_of(self, ref_ids: Collection[str]) -> dict[str, Fanout]:
        """The ledger's rows of these posts."""
        keys = [{FANOUTS.partition_key: text(each)} for each in ref_ids]
        found = self._get(self.stores.settings.fanouts_table, keys)
        return {each.fanout_id: each for each in map(fanout_of, found)}

    def entries(self, user_id: str) -> list[Entry]:
        """The newest entries of a timeline, read eventually."""
        request: Any = self.stores.entries.request(
            user_id, Range(self.since), start=None, limit=ENTRIES, ScanIndexForward=False
        )
        del request["ProjectionExpression"]  # which leaves the time to live out
        return list(map(_entry_of, self.stores.client.query(**request)["Items"]))

    @property
    def since(self) -> str:
        """The time of the oldest post that is shown."""
        return shown_since(self.stores.settings.retention_days)

    # What must be there

    def missed(self, pairs: Sequence[Pair]) -> list[Look]:
        """A look at each pair of which the entry, or its place in the reader's pages, is not there.

        The entry is read first, and the rest only of those: nearly all pairs end before.
        """
        there, left_out = self._there(pairs), self._left_out(pairs)
        pairs = [pair for pair in pairs if pair.subject not in there - left_out]
        relations = {(pair.user_id, pair.fanout.publisher_id) for pair in pairs}
        rows = self._rows(relations)
        puts = self._puts(relations)
        posts = self._posts({pair.fanout.fanout_id for pair in pairs})
        now_ms = clock.now_ms()
        return [
            Look(
                fanout=pair.fanout,
                is_there=pair.subject in there,
                is_read=pair.subject not in left_out,
                row=rows[pair.user_id, pair.fanout.publisher_id],
                puts=puts.get((pair.user_id, pair.fanout.publisher_id), ()),
                post=posts.get(pair.fanout.fanout_id),
                now_ms=now_ms,
            )
            for pair in pairs
        ]

    def _there(self, pairs: Sequence[Pair]) -> set[Subject]:
        wanted = {
            pair.subject: (owner_of(pair.fanout, pair.user_id), pair.fanout.sort_key)
            for pair in pairs
        }
        keys = [
            {"user_id": text(owner), "sort_key": text(sort_key)}
            for owner, sort_key in sorted(set(wanted.values()))
        ]
        items = self._get(self.stores.settings.timelines_table, keys)
        found = {(get_text(item, "user_id"), get_text(item, "sort_key")) for item in items}
        return {subject for subject, key in wanted.items() if key in found}

    def _left_out(self, pairs: Sequence[Pair]) -> set[Subject]:
        """The pairs of which the reader's pages do not read the channel that holds the entry."""
        shared = [pair for pair in pairs if pair.fanout.by == CHANNEL]
        if not shared:
            return set()
        head = self.stores.heads.get(is_consistent=self.is_consistent)
        readers = self._readers({pair.user_id for pair in shared})
        since = self.since
        return {
            pair.subject
            for pair in shared
            if pair.fanout.sort_key > since
            and _leaves_out(head, readers[pair.user_id], pair.fanout.publisher_id)
        }

    # What must not be there

    def shown(self, entries: Sequence[tuple[str, Entry]]) -> list[Shown]:
        """What is known of entries (user, entry): each reader's marks last."""
        posts = self._posts({_ref_id(entry) for _, entry in entries})
        rows = self._rows({(user_id, entry.publisher_id) for user_id, entry in entries})
        readers = self._readers({user_id for user_id, _ in entries})
        now_ms = clock.now_ms()
        return [
            Shown(
                entry=entry,
                post=posts.get(_ref_id(entry)),
                row=rows[user_id, entry.publisher_id],
                is_hidden=self._hides(readers[user_id], entry.publisher_id, now_ms),
                now_ms=now_ms,
            )
            for user_id, entry in entries
        ]

    def _hides(self, reader: Reader, publisher_id: str, now_ms: int) -> bool:
        settings = self.stores.settings
        days = max(settings.retention_days, settings.entry_days)
        hidden = marks.left_out(reader, [publisher_id], now_ms=now_ms, retention_days=days)
        return bool(hidden) or marks.is_verifying(reader, now_ms=now_ms)

    # Rows, by key

    def _rows(self, relations: Collection[tuple[str, str]]) -> dict[tuple[str, str], Follow]:
        keys = [
            {"user_id": text(user), "publisher_id": text(publisher)}
            for user, publisher in sorted(relations)
        ]
        rows = map(follow_of, self._get(self.stores.settings.following_table, keys))
        found = {(row.user_id, row.publisher_id): row for row in rows}
        none = {each: Follow(user_id=each[0], publisher_id=each[1]) for each in relations}
        return none | found

    def _puts(self, relations: Collection[tuple[str, str]]) -> dict[tuple[str, str], list[Any]]:
        """When the edges were put, in epoch seconds; None for one that does not say it."""
        levels = {
            publisher: self.stores.publishers.shards(publisher, consistent=self.is_consistent).level
            for publisher in sorted({publisher for _, publisher in relations})
        }
        by_key = {}
        for user, publisher in sorted(relations):
            for level in range(levels[publisher] + 1):
                key = edge_key(publisher, user, level)
                by_key[get_text(key, "shard_id"), get_text(key, "edge")] = user, publisher
        keys = [{"shard_id": text(shard), "edge": text(edge)} for shard, edge in by_key]
        found: dict[tuple[str, str], list[Any]] = {}
        for item in self._get(self.stores.settings.followers_table, keys):
            relation = by_key[get_text(item, "shard_id"), get_text(item, "edge")]
            found.setdefault(relation, []).append(get_number(item, "at") or None)
        return found

    def _posts(self, ref_ids: Collection[str]) -> dict[str, Post]:
        keys = [{POSTS.partition_key: text(each)} for each in sorted(ref_ids)]
        posts = map(post_of, self._get(self.stores.settings.posts_table, keys))
        return {post.ref_id: post for post in posts}

    def _readers(self, users: Collection[str]) -> dict[str, Reader]:
        keys = [{READERS.partition_key: text(user)} for user in sorted(users)]
        items = self._get(self.stores.settings.readers_table, keys)
        found = {get_text(item, "user_id"): reader_of(item) for item in items}
        return {user: found.get(user, Reader()) for user in users}

    def _get(self, table: str, keys: Sequence[Any]) -> Iterable[Item]:
        for start in range(0, len(keys), MAX_KEYS):
            some = {"Keys": keys[start : start + MAX_KEYS], "ConsistentRead": self.is_consistent}
            yield from dynamodb.rows(self.stores.client, {table: some})[table]


def _leaves_out(head: Head, reader: Reader, publisher_id: str) -> bool:
    is_gone = head.of(publisher_id) is None
    return is_gone or following.is_channel_missing(reader, head, publisher_id)


def _ref_id(entry: Entry) -> str:
    return split_sort_key(entry.sort_key)[1]


def _entry_of(item: Item) -> Entry:
    publisher_id, expires_at = get_text(item, "publisher_id"), get_number(item, EXPIRES_AT)
    return Entry(get_text(item, "sort_key"), publisher_id, expires_at)
