"""What the page says: the headline of a state, and the events between two states. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fanfold.fanout.row import ABANDONED, CHANNEL, COMPLETE, EXPIRED, STALLED
from fanfold_cli.console.views import BUSY, CALM, GOOD, HEAL, HURT, INFO, Headline, Ring, State
from fanfold_cli.deliveries.watch import AGAIN_SECONDS
from fanfold_cli.terminal import counted, duration

STILL = "Nothing moves, nothing is lost"
# People wonder about a longer standstill.
STILL_SECONDS = 6.0


def limit(seconds: float) -> str:
    """A time limit: `6 min`, not `6 min 0 s`."""
    return duration(round(seconds)).removesuffix(" 0 s")


def headline(state: State) -> Headline:
    """The most important fact and its reason; always names paused lanes."""
    found = _headline(state)
    if state.failure or not (state.paused.lanes or found.title == STILL):
        return found
    paused = state.paused.told(round(state.read_at * 1000))
    return replace(found, text=f"{found.text.strip()} {paused}".strip())


def _headline(state: State) -> Headline:
    hurt = state.hurting
    if state.failure:
        return Headline(HURT, "The stack cannot be read", state.failure)
    if state.verdict is not None:
        found = state.verdict
        title = f"{found.delivered:,} of {found.expected:,} delivered, {found.lost:,} lost, "
        title += f"{found.twice:,} seen twice"
        if found.unexpected or found.wrong_readers:
            title += f", {found.unexpected + found.wrong_readers:,} otherwise wrong"
        return Headline(GOOD if found.is_right else HURT, title, _what_was_done(state))
    if state.stalled:
        what = counted(state.stalled, "delivery has", "deliveries have")
        return Headline(
            HURT,
            f"{what} stalled",
            "The dead letters say why. Remove the cause, then redrive or resend.",
        )
    if state.ring is None:
        return Headline(CALM, "Nothing is being delivered", _what_waits(state))
    if hurt is not None and state.open and (sick := _sick(state)):
        return sick
    if state.still_seconds >= STILL_SECONDS and state.open:
        again = hurt.hidden_for if hurt else AGAIN_SECONDS
        shown = f"SQS shows a hidden message again within {limit(again)}."
        waiting = "" if state.paused.lanes else "Messages wait for a worker."
        hidden = _hidden(state)
        why = f"{hidden} failed or lost their worker. {shown}" if hidden else waiting
        return Headline(HURT, STILL, why)
    if state.open:
        many = counted(state.open, "delivery is", "deliveries are")
        return Headline(BUSY, "Delivering", f"{many} under way. {_dead(state)}")
    return _ended(state, state.ring)


def _ended(state: State, ring: Ring) -> Headline:
    if ring.state == COMPLETE:
        return Headline(
            GOOD,
            _arrived(ring, "it"),
            # A post still in the queue has no row yet.
            _dead(state) or _in_queues(state) or "Nothing is owed to anybody.",
        )
    return Headline(HURT, f"The delivery was {ring.state}", _dead(state))


def _arrived(ring: Ring, what: str) -> str:
    """Who got a delivered post, and how long that took."""
    took = f" in {duration(ring.lag_seconds)}" if ring.lag_seconds is not None else ""
    if ring.by == CHANNEL:
        readers = counted(ring.delivered, "follower")
        return f"{what[0].upper()}{what[1:]} is in the channel{took}, read by about {readers}"
    return f"{counted(ring.delivered, 'follower has', 'followers have')} {what}{took}"


def _sick(state: State) -> Headline | None:
    hurt = state.hurting
    assert hurt is not None
    if any(worker.state == "killed" for worker in state.workers) or untended(state):
        return Headline(
            HURT,
            "A worker is gone, its work is not",
            "The ledger still has its segment pending, and SQS shows its message again. As "
            f"deployed that takes up to {limit(AGAIN_SECONDS)}; here, {hurt.shown_after} s.",
        )
    if hurt.throttled:
        return Headline(
            HURT,
            "The table refuses, the workers slow down",
            "What comes back unprocessed goes out again, by key, after a pause with jitter.",
        )
    if hurt.twice:
        return Headline(
            HURT,
            "Every message comes twice",
            "Two workers write the same entries. A put of the same key is the same row.",
        )
    return None


def untended(state: State) -> list[int]:
    """Pending segments of the ring that were begun, and that no worker holds."""
    ring = state.ring
    if ring is None or not ring.segments or not ring.have:
        return []
    busy = (worker for worker in state.workers if worker.state == "busy")
    held = {worker.segment for worker in busy if worker.ref_id == ring.ref_id}
    per = max(1, len(ring.have) // ring.segments)
    begun = (each for each in ring.pending if any(ring.have[each * per : (each + 1) * per]))
    return [each for each in begun if each not in held]


def _what_was_done(state: State) -> str:
    hurt = state.hurting
    if hurt is None:
        return ""
    done = [
        (hurt.killed, "worker killed", "workers killed"),
        (hurt.refused, "batch refused", "batches refused"),
        (hurt.copies, "message sent twice", "messages sent twice"),
        (hurt.rewritten, "entry written again", "entries written again"),
    ]
    told = ", ".join(counted(count, one, more) for count, one, more in done if count)
    return f"{told}. Counted row by row in the table, against the follow graph." if told else ""


def _what_waits(state: State) -> str:
    waiting = _in_queues(state)
    words = waiting or "The queues are empty."
    if not (waiting or state.dead or state.readers):
        # Its row is not open long enough for a refresh to find it.
        return f"{words} A post with few followers shows only with one of them as --reader."
    return f"{words} {_dead(state)}".strip()


def _in_queues(state: State) -> str:
    owed = sum(depth.owed for depth in state.queues.values())
    return f"{counted(owed, 'message')} in the queues." if owed else ""


def _dead(state: State) -> str:
    return f"{counted(state.dead, 'dead letter')}: see below." if state.dead else ""


def _hidden(state: State) -> str:
    busy = ((name, each.at_work) for name, each in state.queues.items() if each.at_work)
    return ", ".join(counted(at_work, f"{name} message") for name, at_work in busy)


def events(before: State, after: State) -> list[tuple[float, str, str]]:
    """What happened between two refreshes, as time, kind and sentence, oldest first."""
    known = {ring.ref_id: ring for ring in (before.ring, *before.others) if ring}
    found = [(after.read_at, kind, sentence) for kind, sentence in _of_all(before, after)]
    for ring in (after.ring, *after.others):
        if ring is not None:
            was = known.get(ring.ref_id)
            at = ring.changed_at if was else ring.accepted_at
            if ring.state == STALLED:  # the ledger does not note when
                at = after.read_at
            found += [(at, kind, sentence) for kind, sentence in _of_one(was, ring)]
    return sorted(found, key=lambda each: each[0])


def _of_all(before: State, after: State) -> Iterator[tuple[str, str]]:
    dead = after.dead - before.dead
    if dead > 0 and before.queues:
        yield HURT, f"{counted(dead, 'message has', 'messages have')} become dead letters."
    elif dead < 0 and before.queues:
        yield HEAL, f"{counted(-dead, 'dead letter is', 'dead letters are')} gone from the queues."
    if before.failure and not after.failure:
        yield HEAL, "The stack answers again."


def _of_one(was: Ring | None, ring: Ring) -> Iterator[tuple[str, str]]:
    whose = f"the post of {ring.publisher_id}"
    # The ring may show another post by now.
    is_shown = ring.is_largest or (was is not None and was.is_largest)
    if not is_shown and ring.state not in (STALLED, EXPIRED, ABANDONED):
        return
    if was is None and ring.state not in (COMPLETE, EXPIRED, ABANDONED):
        yield INFO, f"{whose.capitalize()} was accepted."
    if ring.state == (was.state if was else ""):
        done = len(was.pending) - len(ring.pending) if was else 0
        if done > 0 and ring.pending:
            left = f"{len(ring.pending)} of {ring.segments} are owed"
            yield INFO, f"{counted(done, 'segment')} of {whose} done; {left}."
    elif ring.state == COMPLETE and was is not None:
        yield GOOD, f"{_arrived(ring, whose)}."
    elif ring.state == STALLED:
        yield HURT, f"The delivery of {whose} has stalled."
    elif ring.state in (EXPIRED, ABANDONED):
        yield HURT, f"The delivery of {whose} was {ring.state}."
    elif was is not None and was.state == STALLED:
        yield HEAL, f"The delivery of {whose} goes on."
    elif ring.segments and was is not None and not was.segments:
        yield INFO, f"{whose.capitalize()} is cut into {counted(ring.segments, 'segment')}."
