"""The lines of a history: times and hashes, without content and without names.

A line is a JSON object. `user`, `publisher` and `post` are hashes. `begin` and `end` are epoch
milliseconds: API Gateway received the request at `begin`, or SQS first took the message; the
function had its answer at `end`. Other times are epoch milliseconds, too.

* `follow`, `unfollow`, `mute`, `unmute`, and of the publisher `approve`, `remove`, `block`,
  `unblock`: `user` and `publisher`. `retract`: `publisher` and `post`. Each is written twice:
  before the change without `end`, and with it once it was accepted. So a function that dies in
  between is known to have begun. A block has lines of both directions.
* `request` comes in place of the second `follow`, if it waits for the publisher.
* `publish`: `publisher`, `post`, its time `at`. It begins when the post was accepted.
* `complete`: `post`, and whether it is in a `channel`. By this time, the ledger says so.
* `page`: `user`, the `posts` shown, newest first, and the `limit`. The page shows all posts between
  `from` and `to` (without it: all newer ones). Upwards pages have no `from`. `more`: there is an
  older page. `partial`: the page may be short. `ids`: without content, retracted posts included.

`queue` marks a message.
"""

from __future__ import annotations

import hashlib
from typing import Any

from fanfold import json_text

VERSION = 1
# The first member of each line: what tells it from other lines of a log.
HISTORY = "history"
FOLLOW, UNFOLLOW, MUTE, UNMUTE = "follow", "unfollow", "mute", "unmute"
REQUEST, APPROVE, REMOVE = "request", "approve", "remove"
BLOCK, UNBLOCK = "block", "unblock"
PUBLISH, RETRACT, COMPLETE, PAGE = "publish", "retract", "complete", "page"
# 64 bits: among a million ids, two have one hash in 37 million stages.
HASH_DIGITS = 16


def hashed(stage: str, id_: str) -> str:
    """What stands for an id of a user or a post; `stage` tells the hashes of two stages apart."""
    return hashlib.sha256(f"{stage}#{id_}".encode()).hexdigest()[:HASH_DIGITS]


def write(kind: str, **members: Any) -> str:
    """A line, without the members that are None or False."""
    told = {name: each for name, each in members.items() if each is not None and each is not False}
    return json_text.write({HISTORY: VERSION, "kind": kind, **told})
