"""The readers table: how many publishers each user follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanfold.aws.items import expressions, number, text


@dataclass(frozen=True)
class Readers:
    table: str

    def followed(self, user_id: str, publishers: int, *, max_follows: int) -> dict[str, Any]:
        """The Update, for a transaction, that counts new follows of this many publishers.

        Its condition fails if the user would then follow more than `max_follows`.
        """
        return self._update(
            user_id,
            publishers,
            condition="attribute_not_exists(#follows) OR #follows <= :room",
            values={":room": number(max_follows - publishers)},
        )

    def unfollowed(self, user_id: str) -> dict[str, Any]:
        """The Update, for a transaction, that counts one ended follow."""
        return self._update(user_id, -1)

    def _update(self, user_id: str, follows: int, **condition: Any) -> dict[str, Any]:
        return {
            "TableName": self.table,
            "Key": {"user_id": text(user_id)},
            **expressions(adds={"follows": number(follows)}, **condition),
        }
