"""Who may send events to the publish queue, and for whom.

SQS records the sender of each message (`SenderId`), and no sender can forge it. Everything else in
a message is its sender's claim.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from fanfold.contract import ID_PATTERN
from fanfold.errors import NotTheirs
from fanfold.ids import is_of_users_door

# Ids of users and roles begin with four letters for their kind. An account is twelve digits, which
# the name of a federated user may follow. The name has no `=` and no `,`: rules use these.
SENDER_PATTERN = r"[A-Z]{4}[A-Z0-9]{8,124}|[0-9]{12}(?::[\w+.@-]{1,64})?"
_ROLE = "AROA"
_EVERYBODY = "*"
# An id, or a prefix of ids.
_NAMED = rf"(?:{ID_PATTERN})?\*|{ID_PATTERN}"
# A sender that SQS does not name, or not as it names senders; no rule is for it.
UNKNOWN = "unknown"
# Senders of a message that different operators move back again and again.
_MAX_CARRIED = 10


def identity(sender_id: str) -> str:
    """The sender in a `SenderId`; without the session of a role, whose name is free to choose."""
    if not re.fullmatch(r"[!-~]{1,160}", sender_id, re.ASCII):
        return UNKNOWN
    return sender_id.partition(":")[0] if sender_id.startswith(_ROLE) else sender_id


def chain(sender_id: str, carried: str) -> str:
    """The senders of a message that is sent again, the latest first, with spaces between them."""
    before = carried.split()
    if len(before) > _MAX_CARRIED:  # never without the first sender, whose rights count
        before = [*before[: _MAX_CARRIED - 1], before[-1]]
    return " ".join(dict.fromkeys(map(identity, (sender_id, *before))))


class SenderRule(NamedTuple):
    """A sender, the ids that it may act for, and the new `ref_id` that it may take for them.

    Each is an id, or a prefix with a `*` behind it. Without `ref_ids`, it may take every `ref_id`
    that no other sender's rule names and the HTTP door does not make: anybody can tell the door's,
    since their keys are no secret.
    """

    sender: str
    publishers: tuple[str, ...]
    ref_ids: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> "SenderRule":
        """Read `AROAEXAMPLE=news-* tv/news:*`; raises `ValueError` with what is wrong."""
        sender, _, named = text.partition("=")
        if not re.fullmatch(SENDER_PATTERN, sender, re.ASCII):
            raise ValueError(f"{sender!r} is no unique id of a role or user, and no account")
        found = [tuple(part.split()) for part in named.split("/", 1)]  # no id contains '/'
        for part in found:
            odd = [each for each in part if not re.fullmatch(_NAMED, each, re.ASCII)]
            if odd or not part:
                raise ValueError(
                    f"{' '.join(odd)!r} is neither an id nor the beginning of ids with a * behind "
                    "it"
                )
        return cls(sender, *found)

    @property
    def text(self) -> str:
        return f"{self.sender}={'/'.join(map(' '.join, filter(None, self[1:])))}"

    @property
    def is_for_everybody(self) -> bool:
        return _EVERYBODY in self.publishers and not self.ref_ids

    def allows(self, actor: str, takes: str, *, is_kept: bool = False) -> bool:
        """Whether it may act for `actor`, and take this `ref_id`, if any; `is_kept` for others."""
        return _is_named(actor, self.publishers) and (not takes or self._gives(takes, is_kept))

    def _gives(self, ref_id: str, is_kept: bool) -> bool:
        if self.ref_ids:
            return self.names(ref_id)
        return self.is_for_everybody or not (is_kept or is_of_users_door(ref_id))

    def names(self, ref_id: str) -> bool:
        return _is_named(ref_id, self.ref_ids)

    def keeps(self, ref_id: str) -> bool:
        """Whether it keeps this `ref_id` for its sender, which a `*` alone does not."""
        return _is_named(ref_id, tuple(each for each in self.ref_ids if each != _EVERYBODY))


def _is_named(id_: str, named: tuple[str, ...]) -> bool:
    return any(id_.startswith(each[:-1]) if each.endswith("*") else id_ == each for each in named)


class Senders:
    """Senders that are bound to the ids they may act for; nobody else may send events."""

    def __init__(self, rules: Iterable[SenderRule]) -> None:
        self._rules: dict[str, list[SenderRule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.sender, []).append(rule)

    @classmethod
    def read(cls, text: str) -> "Senders":
        """Read rules with commas between them; raises `ValueError`."""
        return cls(SenderRule.read(each) for each in text.split(","))

    def check(self, actor: str, *, sender_id: str, carried: str, takes: str = "") -> None:
        """Raise `NotTheirs` unless the sender may act for this publisher or user.

        If the event `takes` a `ref_id`, the sender must be allowed that too. An event takes one if
        it publishes, or leaves a tombstone where nobody has published.

        A sender that may act for everybody may also move a dead letter back, and names its first
        sender in `carried`: then that one's rights count. No other sender's `carried` is believed.
        """
        for sender in chain(sender_id, carried).split():
            rules, is_kept = self._rules.get(sender, ()), self._is_kept(takes, sender)
            if not any(rule.allows(actor, takes, is_kept=is_kept) for rule in rules):
                what = f"take the ref_id '{takes}' for" if takes else "act for"
                raise NotTheirs(
                    f"Its sender '{sender}' may not {what} '{actor}': the stage's 'senders' "
                    "say who may. Name it there, deploy, and redrive; or drop the message."
                )
            if not any(rule.is_for_everybody for rule in rules):
                return

    def _is_kept(self, ref_id: str, sender: str) -> bool:
        """Whether only rules of other senders keep this `ref_id`.

        Otherwise, a sender without `ref_ids` could take one that another is about to publish under.
        """
        return not any(rule.names(ref_id) for rule in self._rules.get(sender, ())) and any(
            rule.keeps(ref_id) for rules in self._rules.values() for rule in rules
        )
