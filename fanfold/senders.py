"""Who may send events to the publish queue, and for whom: by what SQS says of a message's sender.

SQS notes the sender of each message (`SenderId`), and no sender can write it. Everything else in a
message is its sender's word.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from fanfold.contract import ID_PATTERN
from fanfold.errors import NotTheirs

# Ids of users and roles begin with four letters that say what they are; an account is twelve
# digits, and a federated user of it has a name behind that; one with `=` or `,` cannot be named,
# because these stand between rules and in them.
SENDER_PATTERN = r"[A-Z]{4}[A-Z0-9]{8,124}|[0-9]{12}(?::[\w+.@-]{1,64})?"
_ROLE = "AROA"
_EVERYBODY = "*"
# An id, or the beginning of ids.
_PUBLISHER = rf"(?:{ID_PATTERN})?\*|{ID_PATTERN}"
# Stands for a sender that SQS does not name, or not as it names senders; no rule is for it.
UNKNOWN = "unknown"
# Of a message that is moved back again and again, by so many different operators.
_MAX_CARRIED = 10


def identity(sender_id: str) -> str:
    """Whom a `SenderId` names: of a role, the role, since its sessions have any name they like."""
    if not re.fullmatch(r"[!-~]{1,160}", sender_id, re.ASCII):
        return UNKNOWN
    return sender_id.partition(":")[0] if sender_id.startswith(_ROLE) else sender_id


def chain(sender_id: str, carried: str) -> str:
    """The senders of a message that is sent again, the latest first, with spaces between them."""
    before = carried.split()
    if len(before) > _MAX_CARRIED:  # never without the first sender, whose rights count
        before = [*before[: _MAX_CARRIED - 1], before[-1]]
    return " ".join(dict.fromkeys(map(identity, (sender_id, *before))))


class Rule(NamedTuple):
    """A sender, with the ids that it may act for: whole, or beginnings that end with `*`."""

    sender: str
    publishers: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "Rule":
        """Read `AROAEXAMPLE=news-* tv`; raises `ValueError` with what is wrong."""
        sender, _, publishers = text.partition("=")
        if not re.fullmatch(SENDER_PATTERN, sender, re.ASCII):
            raise ValueError(f"{sender!r} is no unique id of a role or user, and no account")
        found = tuple(publishers.split())
        odd = [each for each in found if not re.fullmatch(_PUBLISHER, each, re.ASCII)]
        if odd or not found:
            raise ValueError(
                f"{' '.join(odd)!r} is neither an id nor the beginning of ids with a * behind it"
            )
        return cls(sender, found)

    @property
    def text(self) -> str:
        return f"{self.sender}={' '.join(self.publishers)}"

    @property
    def is_for_everybody(self) -> bool:
        return _EVERYBODY in self.publishers

    def allows(self, actor: str) -> bool:
        return any(
            actor.startswith(each[:-1]) if each.endswith("*") else actor == each
            for each in self.publishers
        )


class Senders:
    """Senders that are bound to the ids they may act for; nobody else may send events."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.sender, []).append(rule)

    @classmethod
    def read(cls, text: str) -> "Senders":
        """Read rules with commas between them; raises `ValueError`."""
        return cls(Rule.read(each) for each in text.split(","))

    def check(self, actor: str, *, sender_id: str, carried: str) -> None:
        """Raise `NotTheirs` unless the sender may act for this publisher or user.

        Who may act for everybody may also move a dead letter back, whose first sender it names in
        `carried`: then that one's rights count. Of anybody else, `carried` is not believed.
        """
        for sender in chain(sender_id, carried).split():
            rules = self._rules.get(sender, ())
            if not any(rule.allows(actor) for rule in rules):
                raise NotTheirs(
                    f"Its sender '{sender}' may not act for '{actor}': the stage's 'senders' "
                    "say who may. Name it there, deploy, and redrive; or drop the message."
                )
            if not any(rule.is_for_everybody for rule in rules):
                return
