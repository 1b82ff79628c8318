"""Who may see what a publisher shows apart from timelines: posts, followers and their number."""

from __future__ import annotations

from dataclasses import dataclass

from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publisher.privacy import Privacies


@dataclass(frozen=True)
class Access:
    follows: FollowsTable
    privacies: Privacies

    def is_given(self, user_id: str, publisher_id: str) -> bool:
        """Whether the user may see what was read of the publisher before this call.

        Read after that, so that nothing of later than a removal or a block is shown. To a user whom
        it blocks, a publisher seems private.
        """
        if user_id == publisher_id:
            return True
        row = self.follows.get(user_id, publisher_id)
        if not row.needs_privacy:
            return row.is_active
        return not self.privacies.known(publisher_id, at_least=row.privacy).is_private
