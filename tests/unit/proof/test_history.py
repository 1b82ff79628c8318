"""The judge of histories: each rule with a history that breaks it, and one that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fanfold.history import lines
from proof.history.__main__ import main
from proof.history.judge import (
    DISORDER,
    EARLY,
    MISSING,
    NOT_FOLLOWED,
    RETRACTED,
    SIZE,
    TORN,
    TWICE,
    Judged,
    judge,
)
from proof.history.told import BadLine, read

AT = 1_795_197_600_000
BOB, ADA = "b0b0b0b0b0b0b0b0", "adaadaadaadaadaa"
LONG_AGO = AT - 30 * 24 * 60 * 60 * 1000
SECOND = 1_000


def asked(
    kind: str, at: float, *, answered: bool = True, user: str = BOB, **more: Any
) -> list[str]:
    """A request of `user` about Ada at this second; it takes 50 ms."""
    about = {"user": user, "publisher": ADA, "begin": ms(at), **more}
    begun = lines.write(kind, **about)
    return [begun, lines.write(kind, **about, end=ms(at) + 50)] if answered else [begun]


def posted(post: str, at: float, *, complete: float | None = 1, **more: Any) -> list[str]:
    """A post of Ada's at this second, delivered so many seconds later, or never."""
    about = {"post": post, "publisher": ADA, "at": ms(at), "begin": ms(at)}
    found = [lines.write(lines.PUBLISH, **about, end=ms(at) + 50)]
    if complete is not None:
        done = ms(at + complete)
        found.append(lines.write(lines.COMPLETE, post=post, begin=done, end=done, **more))
    return found


def retracted(post: str, at: float, *, answered: bool = True) -> list[str]:
    about = {"publisher": ADA, "post": post, "begin": ms(at)}
    begun = lines.write(lines.RETRACT, **about)
    return [begun, lines.write(lines.RETRACT, **about, end=ms(at) + 50)] if answered else [begun]


def page(at: float, *posts: str, user: str = BOB, limit: int = 20, **more: Any) -> list[str]:
    """A page at this second, which shows all from a month ago on."""
    about = {"user": user, "begin": ms(at), "end": ms(at) + 50, "posts": [*posts], "limit": limit}
    return [lines.write(lines.PAGE, **{**about, "from": LONG_AGO, **more})]


def ms(at: float) -> int:
    return AT + round(at * SECOND)


def judged(*parts: list[str], is_whole: bool = True, skew_ms: int = SECOND) -> Judged:
    text = "\n".join(line for part in parts for line in part)
    return judge(read([("log", text)], skew_ms=skew_ms), is_whole=is_whole)


def kinds(*parts: list[str], is_whole: bool = True, skew_ms: int = SECOND) -> list[str]:
    found = judged(*parts, is_whole=is_whole, skew_ms=skew_ms).findings
    return [each.kind for each in found]


FOLLOWED = asked(lines.FOLLOW, 0)
POSTED = posted("first", 10)


def test_a_page_shows_what_its_reader_follows() -> None:
    found = judged(FOLLOWED, POSTED, page(30, "first"))
    assert found.findings == []
    assert (found.counts["owed"], found.counts["unsure"]) == (1, 0)


def test_a_page_without_a_delivered_post_of_a_followed_publisher_is_found() -> None:
    found = judged(FOLLOWED, POSTED, page(30))
    (finding,) = found.findings
    assert finding == (MISSING, BOB, ms(30), "first")
    assert str(finding).endswith(f"reader {BOB}, at 2026-11-20T18:00:30.000Z, first")


@pytest.mark.parametrize(
    "excuse",
    [
        pytest.param(posted("first", 10, complete=None), id="it is not delivered"),
        pytest.param(posted("first", 10, complete=12), id="it was delivered just now"),
        pytest.param(posted("first", 1), id="the follow was answered at the same time"),
        pytest.param([*POSTED, *retracted("first", 20)], id="it is retracted"),
        pytest.param([*POSTED, *retracted("first", 20, answered=False)], id="it may be retracted"),
        pytest.param([*POSTED, *asked(lines.UNFOLLOW, 20)], id="it is unfollowed"),
        pytest.param([*POSTED, *asked(lines.MUTE, 20)], id="it is muted"),
        pytest.param(
            [*POSTED, *asked(lines.UNFOLLOW, 28, answered=False)], id="it may be unfollowed"
        ),
        pytest.param([*POSTED, *asked(lines.MUTE, 29.5)], id="it is being muted"),
    ],
)
def test_a_page_may_lack_a_post_if(excuse: list[str]) -> None:
    assert kinds(FOLLOWED, excuse, page(30)) == []


@pytest.mark.parametrize(
    "place",
    [
        pytest.param({"from": ms(10)}, id="it lies below the page"),
        pytest.param({"to": ms(10)}, id="it lies above the page"),
        pytest.param({"from": None}, id="the page goes upwards"),
    ],
)
def test_a_page_may_lack_a_post_where_it_does_not_reach(place: dict[str, Any]) -> None:
    assert kinds(FOLLOWED, POSTED, page(30, **place)) == []


def test_a_page_that_shows_nobody_whom_its_reader_follows_is_found() -> None:
    assert kinds(POSTED, page(30, "first")) == [NOT_FOLLOWED]
    gone = [*FOLLOWED, *POSTED, *asked(lines.UNFOLLOW, 20)]
    assert kinds(gone, page(30, "first")) == [NOT_FOLLOWED]
    assert kinds(gone, page(20.04, "first")) == []


def test_a_page_that_shows_a_muted_publisher_is_found() -> None:
    muted = [*FOLLOWED, *POSTED, *asked(lines.MUTE, 20)]
    assert kinds(muted, page(30, "first")) == [NOT_FOLLOWED]
    assert kinds(muted, asked(lines.UNMUTE, 25), page(30, "first")) == []
    assert kinds(muted, asked(lines.UNMUTE, 25), page(30)) == [MISSING]


def test_what_was_shown_is_there_again_after_an_unfollow_and_a_follow() -> None:
    back = [*asked(lines.UNFOLLOW, 40), *asked(lines.FOLLOW, 50)]
    seen = [*FOLLOWED, *posted("first", 1), *page(30, "first")]
    assert kinds(seen, back, page(60, "first")) == []
    assert kinds(seen, back, page(60)) == [MISSING]


def test_requests_without_an_answer_have_one_effect_or_none_in_one_order() -> None:
    maybe = [*FOLLOWED, *POSTED, *asked(lines.UNFOLLOW, 20, answered=False)]
    assert kinds(maybe, page(30), page(50)) == []
    assert kinds(maybe, page(30, "first"), page(50, "first")) == []
    # It had its effect before the first page, so nothing brings the publisher back.
    assert kinds(maybe, page(30), page(50, "first")) == [NOT_FOLLOWED]
    muted = [*FOLLOWED, *POSTED, *asked(lines.MUTE, 20, answered=False)]
    assert kinds(muted, page(30), page(50, "first")) == [NOT_FOLLOWED]
    # Nor is it still to come, once its function has surely ended.
    assert kinds(maybe, page(60, "first"), page(90)) == [MISSING]


def test_a_message_counts_from_its_sending_to_its_handling_once() -> None:
    late = [line for end in (40_000, 60_000) for line in _handled(lines.UNFOLLOW, 20, end)]
    assert kinds(FOLLOWED, POSTED, late, page(30)) == []
    assert kinds(FOLLOWED, POSTED, late, page(30, "first")) == []
    assert kinds(FOLLOWED, POSTED, late, page(50, "first")) == [NOT_FOLLOWED]


def _handled(kind: str, at: float, end: int) -> list[str]:
    about = {"user": BOB, "publisher": ADA, "begin": ms(at), "queue": True}
    return [lines.write(kind, **about), lines.write(kind, **about, end=AT + end)]


REQUESTED = [
    lines.write(lines.FOLLOW, user=BOB, publisher=ADA, begin=ms(0)),
    lines.write(lines.REQUEST, user=BOB, publisher=ADA, begin=ms(0), end=ms(0) + 50),
]


def test_a_request_may_become_a_follow_until_it_is_ended_and_once() -> None:
    later = [*posted("first", 10), *posted("later", 2_000)]
    assert kinds(REQUESTED, later, page(30), page(3_000)) == []
    assert kinds(REQUESTED, posted("later", 2_000), page(30), page(3_000, "later")) == []
    assert kinds(REQUESTED, later, page(3_000, "later"), page(3_100)) == [MISSING]
    for end in (lines.UNFOLLOW, lines.REMOVE, lines.BLOCK):
        ended = [*REQUESTED, *asked(end, 20), *later]
        assert kinds(ended, page(3_000, "later")) == [NOT_FOLLOWED]


def test_an_approved_follower_is_owed_what_is_posted_then() -> None:
    approved = [*REQUESTED, *asked(lines.APPROVE, 20)]
    assert kinds(approved, posted("first", 10), page(60)) == []
    assert kinds(approved, posted("later", 40), page(60)) == [MISSING]
    assert kinds(approved, posted("later", 40), page(60, "later")) == []
    assert kinds(REQUESTED, asked(lines.APPROVE, 20, answered=False), POSTED, page(60)) == []


@pytest.mark.parametrize("end", [lines.REMOVE, lines.BLOCK])
def test_a_removed_or_blocked_follower_is_shown_nothing(end: str) -> None:
    ended = [*FOLLOWED, *POSTED, *asked(end, 20)]
    assert kinds(ended, page(30, "first")) == [NOT_FOLLOWED]
    assert kinds(ended, page(30)) == []
    assert kinds(ended, asked(lines.UNBLOCK, 40), page(60, "first")) == [NOT_FOLLOWED]
    # One that comes late ends a follow that was repeated meanwhile, but none that began.
    late = [*FOLLOWED, *POSTED, *asked(lines.FOLLOW, 20), *_handled(end, 15, 60_000)]
    assert kinds(late, page(90)) == kinds(late, page(90, "first")) == []
    assert kinds(late, page(90), page(120, "first")) == [NOT_FOLLOWED]


def test_a_delivery_may_miss_a_follow_by_message_until_relate_has_put_its_edge() -> None:
    follow = _handled(lines.FOLLOW, 0, SECOND)
    assert kinds(follow, posted("early", 10), page(300)) == []
    assert kinds(follow, posted("later", 100), page(300)) == [MISSING]


def test_a_page_that_shows_some_posts_of_a_publisher_but_not_all_is_found() -> None:
    two = [*POSTED, *posted("second", 12)]
    assert kinds(FOLLOWED, two, page(30, "second")) == [TORN]


def test_a_channels_post_is_owed_to_those_who_have_followed_ever_since() -> None:
    shared = posted("first", 10, channel=True)
    assert kinds(FOLLOWED, shared, page(30)) == [MISSING]
    back = [*asked(lines.UNFOLLOW, 40), *asked(lines.FOLLOW, 50)]
    assert kinds(FOLLOWED, shared, page(30, "first"), back, page(70)) == []


def test_a_page_that_shows_a_retracted_post_for_long_is_found() -> None:
    gone = [*FOLLOWED, *POSTED, *retracted("first", 20)]
    assert kinds(gone, page(26, "first")) == []
    assert kinds(gone, page(30, "first")) == [RETRACTED]
    assert kinds(gone, page(30, "first", ids=True)) == []
    assert kinds(FOLLOWED, POSTED, retracted("first", 20, answered=False), page(30, "first")) == []


def test_a_page_that_shows_what_was_not_yet_accepted_is_found() -> None:
    assert kinds(FOLLOWED, posted("first", 33), page(30, "first")) == [EARLY]
    assert kinds(FOLLOWED, posted("first", 31), page(30, "first")) == []


def test_a_page_that_shows_a_post_twice_or_out_of_order_is_found() -> None:
    two = [*POSTED, *posted("second", 12)]
    assert kinds(FOLLOWED, two, page(30, "second", "first")) == []
    assert kinds(FOLLOWED, two, page(30, "first", "second")) == [DISORDER]
    assert kinds(FOLLOWED, two, page(30, "second", "first", "first")) == [TWICE]


def test_a_page_of_the_wrong_size_is_found() -> None:
    two = [*FOLLOWED, *POSTED, *posted("second", 12)]
    assert kinds(two, page(30, "second", "first", limit=1)) == [SIZE]
    above: dict[str, Any] = {"from": ms(11), "more": True}
    assert kinds(two, page(30, "second", limit=2, **above)) == [SIZE]
    assert kinds(two, page(30, "second", limit=1, **above)) == []
    assert kinds(two, page(30, "second", limit=2, partial=True, **above)) == []


def test_a_history_that_begins_late_accuses_of_nothing_that_it_cannot_know() -> None:
    assert kinds(POSTED, page(30, "first"), is_whole=False) == []
    muted_long_ago = [*FOLLOWED, *POSTED, *page(30)]
    assert kinds(muted_long_ago, is_whole=False) == []
    unknown = judged(page(30, "older"), is_whole=False)
    assert (unknown.findings, unknown.counts["unknown"]) == ([], 1)


def test_a_history_that_begins_late_learns_from_pages_whom_a_reader_follows() -> None:
    shown = [*POSTED, *page(30, "first")]
    found = judged(shown, page(60), is_whole=False)
    assert [each.kind for each in found.findings] == [MISSING]
    assert (found.counts["owed"], found.counts["unsure"]) == (1, 0)
    assert kinds(shown, posted("second", 40), page(60, "first"), is_whole=False) == [TORN]
    gone = asked(lines.UNFOLLOW, 40)
    assert kinds(shown, gone, page(60), is_whole=False) == []
    assert kinds(shown, gone, page(60, "first"), is_whole=False) == [NOT_FOLLOWED]


def test_clocks_may_differ_by_the_bound_and_not_by_more() -> None:
    # Another container's clock is half a second ahead.
    gone = [*FOLLOWED, *POSTED, *asked(lines.UNFOLLOW, 20.5)]
    assert kinds(gone, page(21, "first")) == []
    assert kinds(gone, page(21, "first"), skew_ms=0) == [NOT_FOLLOWED]
    late = asked(lines.UNFOLLOW, 40.5)
    assert kinds(FOLLOWED, POSTED, late, page(38.9)) == []
    assert kinds(FOLLOWED, POSTED, late, page(38)) == [MISSING]


# Files


def powertools(line: str) -> str:
    return json.dumps({"level": "INFO", "message": line})


WRAPPED = {
    "plain": lambda found: "\n".join(found),
    "among other lines": lambda found: "\n".join(["START", '{"level": "INFO"}', *found, "END {"]),
    "behind another line": lambda found: "\n".join(f'{{"_aws":{{}}}}{each}' for each in found),
    "behind a time": lambda found: "\n".join(f"2026-11-20T18:00:00.123Z {each}" for each in found),
    "filter-log-events": lambda found: json.dumps(
        {"events": [{"message": e} for e in found]}, indent=4
    ),
    "one event a line": lambda found: "\n".join(json.dumps({"message": each}) for each in found),
    "Logs Insights": lambda found: "\n".join(json.dumps({"@message": each}) for each in found),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_every_form_of_an_export_is_read(how: str, tmp_path: Path) -> None:
    export = tmp_path / "export"
    export.write_text(WRAPPED[how]([*FOLLOWED, *POSTED, *page(30)]))
    assert main([str(export), "--whole"]) == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"history":1,"kind":"pa', "log, line 2: this line of the history is cut off"),
        ('{"history":2,"kind":"page"}', "this history has version 2, and this judge reads 1"),
        ('{"history":1,"kind":"like"}', "a history has no lines of kind 'like'"),
        ('{"history":1,"kind":"follow","user":"u","begin":1}', "this follow has no publisher"),
        ('{"history":1,"kind":"complete","post":"a","begin":"x","end":1}', "has no begin"),
        ('{"history":1,"kind":"page","user":"u","posts":[1],"limit":1,"begin":1,"end":1}', "posts"),
    ],
)
def test_a_line_that_no_stage_writes_is_refused_with_its_place(line: str, sentence: str) -> None:
    with pytest.raises(BadLine) as bad:
        read([("log", f"START\n{line}")])
    assert sentence in str(bad.value)


def test_the_command_tells_what_it_judged_and_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong, bad = (tmp_path / name for name in ("right", "wrong", "bad"))
    right.write_text("\n".join([*FOLLOWED, *POSTED, *page(30, "first")]))
    wrong.write_text("\n".join(page(31)))
    bad.write_text('{"history":0}')
    assert main(["--whole", str(right)]) == 0
    assert "1  of posts due: the reader surely follows" in (told := capsys.readouterr().out)
    assert told.endswith("It holds.\n")
    assert main(["--whole", str(right), str(wrong), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["findings"]] == [MISSING]
    assert main([str(bad)]) == 2
    assert capsys.readouterr().err.startswith(f"{bad}, line 1: this history has version 0")
    assert main([str(tmp_path / "none")]) == 2


def test_without_a_page_nothing_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_text("START\n")
    assert main([str(empty)]) == 2
    assert "no page to judge" in capsys.readouterr().out
