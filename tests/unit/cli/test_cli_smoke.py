"""The course of `fanfold smoke`: it stops at what fails, and takes back what it has made."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from fanfold import clock, times
from fanfold_cli.run.people import People
from fanfold_cli.run.smoke import FOLLOWER, PUBLISHER, STRANGER, Smoke, taken_back
from fanfold_cli.stack import Deployment
from fanfold_client import Failed, NoAnswer, Refused

PUBLISHER_ID = "follower"  # an id as good as any


def refused(status: int, problem: str = "problem") -> Refused:
    body = json.dumps({"type": f"x#{problem}", "title": "No"}).encode()
    return Refused.of(urllib3.HTTPResponse(status=status), body)


@dataclass
class Stage:
    """A stage in memory, seen by everybody; `broken` names what it does wrong."""

    broken: str = ""
    unanswered: Failed | None = None  # what publishers are told of their deliveries
    stale: int = 0  # reads after the edit was shown that another container answers
    posts: dict[str, Any] = field(default_factory=dict)  # newest last
    followed: bool = False
    private: bool = False  # publishers approve their followers
    completed: bool = False  # as publishers are told
    calls: list[str] = field(default_factory=list)

    @property
    def timeline(self) -> "Stage":
        return self

    def page(self, **_query: Any) -> Any:
        shown = self.followed or self.broken == "unfollow"
        posts = list(self.posts.values()) if shown and self.broken != "delivery" else []
        if self.broken == "loss" and len(posts) == 3 and self.completed:
            del posts[1]  # the second
        if self.completed and self.stale > 0:
            self.stale -= 1
            posts = [each | {"body": {"title": "before"}} for each in posts]
        posts.sort(key=lambda post: (post["published_at"], post["ref_id"]), reverse=True)
        return {"entries": posts, "next": None}

    def publish(self, body: Any, *, key: str) -> Any:
        return self._add(key, times.to_text(clock.now_ms() + len(self.posts)), body)

    def _add(self, ref_id: str, published_at: str, body: Any) -> Any:
        ids = {"ref_id": ref_id, "publisher_id": PUBLISHER_ID}
        self.posts[ref_id] = {**ids, "published_at": published_at, "body": body}
        return self.posts[ref_id]

    def send(self, message: Any) -> None:
        if self.broken != "queue":
            sent = message.content
            assert "published_at" not in sent, "it is published when it is accepted"
            self.publish(sent["body"], key=sent["ref_id"])

    def post(self, ref_id: str) -> Any:
        if ref_id not in self.posts:
            raise refused(404)
        return self.posts[ref_id]

    def edit(self, ref_id: str, body: Any) -> None:
        if self.broken != "edit":
            self.posts[ref_id]["body"] = body

    def delivery(self, ref_id: str) -> Any:
        if self.unanswered:
            raise self.unanswered
        self.completed = True
        told = {"state": "complete", "completed_at": times.to_text(clock.now_ms())}
        return {**told, "by": "channel", "delivered": 1}

    def follow(self, publisher_id: str) -> None:
        self.followed = self.broken != "follow" and not self.private

    def sent_requests(self) -> Any:
        return [{"publisher_id": PUBLISHER_ID, "requested_at": "now"}] if self.private else []

    def requests(self) -> Any:
        asked = {"before": "somebody", "now": "the follower"}
        return [{"user_id": user, "requested_at": at} for at, user in asked.items()]

    def approve(self, user_id: str) -> None:
        self.calls.append(f"approve {user_id}")
        self.followed = True

    mute = unmute = follow  # which nobody calls

    def following(self) -> Any:
        return [{"publisher_id": PUBLISHER_ID}] if self.followed else []

    def unfollow(self, publisher_id: str) -> None:
        self.calls.append("unfollow")
        self.followed = False

    def retract(self, ref_id: str) -> None:
        if self.broken == "retract":
            raise NoAnswer("no answer")
        if self.posts.pop(ref_id, None) is None:
            raise refused(404)


class Closed(Stage):
    def page(self, **_query: Any) -> Any:
        raise refused(401)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(seconds=0.0)

    def sleep(seconds: float) -> None:
        now.seconds += seconds

    monkeypatch.setattr(clock, "monotonic", lambda: now.seconds)
    monkeypatch.setattr(clock, "sleep", sleep)


def course(stage: Stage, stranger: Stage) -> Smoke:
    own = ("publish", "post", "edit", "delivery", "retract", "requests", "approve")
    publisher = SimpleNamespace(**{each: getattr(stage, each) for each in own})
    apis: Any = {PUBLISHER: publisher, FOLLOWER: stage, STRANGER: stranger}
    people = People(Deployment("here", None, {}), seconds=10, apis=apis)
    people.queue = stage  # type: ignore[assignment]
    return Smoke(people, "smoke-1")


def test_a_stage_that_works_passes_and_nothing_is_left() -> None:
    stage = Stage(stale=3)
    smoke = course(stage, Closed())
    steps = list(smoke.run())
    assert [step.failure for step in steps] == [""] * 9
    assert taken_back(smoke.undo()) == []
    assert (stage.posts, stage.followed) == ({}, False)


@pytest.mark.parametrize(
    ("broken", "step", "failure"),
    [
        ("follow", "A user follows the publisher", "the list of follows lacks it"),
        ("delivery", "A post by HTTP reaches the follower", "not within 10 s"),
        ("queue", "A post by the publish queue reaches the follower", "not within 10 s"),
        ("edit", "An edit shows", "not within 10 s"),
        ("loss", "The delivery is complete", "not within 10 s: a reading of the follower does not"),
        ("unfollow", "An unfollow hides the publisher", "a reading of the follower shows"),
    ],
)
def test_what_does_not_work_is_the_last_step_and_is_taken_back(
    broken: str, step: str, failure: str
) -> None:
    stage = Stage(broken)
    smoke = course(stage, Closed())
    last = list(smoke.run())[-1]
    assert last.name == step
    assert last.failure.startswith(failure)
    assert taken_back(smoke.undo()) == []
    assert (stage.posts, stage.followed) == ({}, False)


@pytest.mark.parametrize(
    ("status", "failure", "seconds"),
    [(403, "403", 0), (500, "500", 0), (503, "not within 10 s: 503", 10), (404, "not within", 10)],
)
def test_an_answer_that_may_pass_is_awaited_and_any_other_ends_the_step(
    status: int, failure: str, seconds: float
) -> None:
    stage = Stage(unanswered=refused(status, "no-post" if status == 404 else "problem"))
    smoke = course(stage, Closed())
    last = list(smoke.run())[-1]
    assert (last.name, last.seconds) == ("The delivery is complete", seconds)
    assert last.failure.startswith(failure)
    assert str(stage.unanswered) in last.failure
    assert taken_back(smoke.undo()) == []
    assert (stage.posts, stage.followed) == ({}, False)


def test_an_api_that_answers_strangers_fails_first() -> None:
    (step,) = course(Stage(), Stage()).run()
    assert step.failure == "a request with a made-up token was answered"


def test_a_publisher_who_is_private_approves_the_follower_alone() -> None:
    stage = Stage(private=True)
    assert [step.failure for step in course(stage, Closed()).run()] == [""] * 9
    assert stage.calls == ["approve the follower", "unfollow"]


def test_what_cannot_be_taken_back_is_named_and_the_rest_is_taken_back() -> None:
    stage = Stage("retract")
    smoke = course(stage, Closed())
    assert list(smoke.run())[-1].failure == "no answer"
    left = taken_back(smoke.undo())
    assert [what.partition(":")[0] for what in left] == ["the post smoke-1"] * 3
    assert not stage.followed
