"""The part of an examination that is about channels: the posts in them, and their head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from fanfold import clock
from fanfold.doctor import rebuilt_head
from fanfold.doctor.findings import Difference, Pair, Report
from fanfold.doctor.rebuilt_head import Known
from fanfold.doctor.repair import failure_of
from fanfold.doctor.scan_channels import ChannelRecords
from fanfold.fanout.row import Fanout


@dataclass(frozen=True)
class ChannelExamination:
    """Two passes, in this order; `suspect` gets the relations to be examined.

    What is complete in a channel was put there before, so these posts need no second read.
    """

    channels: ChannelRecords
    report: Report
    repairs: bool
    suspect: Callable[[list[Pair]], None]
    _known: Known = field(default_factory=Known)
    _missing: list[Fanout] = field(default_factory=list)

    def compare_posts(self, publisher_id: str | None) -> Iterator[int]:
        """Find the posts that are complete in a channel, and are not there."""
        self.report.posts = 0
        for scanned, fanouts in self.channels.delivered(publisher_id):
            self.report.posts += len(fanouts)
            self._known.add(fanouts)
            missing = self.channels.without_entry(fanouts)
            self.report.add_post_missing(missing)
            self._missing.extend(missing)
            yield scanned

    def compare_readers(self, publisher_id: str | None) -> Iterator[int]:
        """Find readers of a channel without a follow's row; at the end, find faults of the head.

        Readers with a row are compared with it.
        """
        listed = [each.publisher_id for each in self.channels.heads.get().channels.values()]
        wanted = [each for each in listed if publisher_id in (None, each)]
        for count, newest, pairs in self.channels.readers(wanted):
            self._known.version = max(self._known.version, newest)
            self.suspect(self.channels.records.without_row(pairs))
            yield count
        self._compare_head()

    def _compare_head(self) -> None:
        """The head is repaired first: a post can be put only into a channel of the head."""
        # Read after the rows, so that none of their versions or `seq` is later.
        head, report = self.channels.heads.get(), self.report
        report.not_in_head = rebuilt_head.not_in_head(head, self._known)
        report.found[Difference.NOT_IN_HEAD] = len(report.not_in_head)
        report.found[Difference.HEAD_OUTDATED] = int(rebuilt_head.is_outdated(head, self._known))
        if not self.repairs:
            return
        kinds = (Difference.NOT_IN_HEAD, Difference.HEAD_OUTDATED)
        if any(report.found[kind] for kind in kinds):
            whole = rebuilt_head.rebuilt(head, self._known, now_ms=clock.now_ms())
            is_done = self._repair(partial(self.channels.replace, head, whole))
            report.repaired.update({kind: report.found[kind] for kind in kinds if is_done})
        for fanout in self._missing:
            is_done = self._repair(partial(self.channels.put, fanout))
            report.repaired[Difference.POST_MISSING] += is_done

    def _repair(self, repair: Callable[[], None]) -> bool:
        failure = failure_of(repair)
        self.report.failure = failure or self.report.failure
        return not failure
