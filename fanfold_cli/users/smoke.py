"""A short use of a deployed stage by two users, which leaves nothing behind that anybody sees."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, contract
from fanfold.aws.queues import WorkQueue
from fanfold.errors import FanfoldError
from fanfold.messages import Message
from fanfold_cli.progress import waiting_for
from fanfold_cli.terminal import ExpectedError
from fanfold_client import Failed, Fanfold, Refused

POLL_SECONDS: Final = 0.5
EXPECTED: Final = (ExpectedError, Failed, FanfoldError, ClientError, BotoCoreError)
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404


@dataclass(frozen=True)
class Step:
    """What was tried; `failure` is a sentence, or empty."""

    name: str
    seconds: float
    failure: str = ""


@dataclass
class Smoke:
    """Two users of the API, and the door of other services; `tag` makes ids that nobody has."""

    publisher: Fanfold
    follower: Fanfold
    stranger: Fanfold  # has no valid token
    queue: WorkQueue
    tag: str
    patience: float  # seconds that any one thing may take
    publisher_id: str = ""
    posts: list[str] = field(default_factory=list)

    def run(self) -> Iterator[Step]:
        """Take one step after the other, up to the first that fails."""
        for name, take in self._steps():
            began, failure = clock.monotonic(), ""
            try:
                with waiting_for(name):
                    take()
            except EXPECTED as error:
                failure = str(error)
            yield Step(name, clock.monotonic() - began, failure)
            if failure:
                return

    def clean(self) -> list[str]:
        """Take back follow and posts, whatever has failed; return what could not be."""
        wishes: list[tuple[str, Callable[[], object]]] = []
        if self.publisher_id:
            wishes.append(("the follow", lambda: self.follower.unfollow(self.publisher_id)))
        wishes += [(f"the post {post}", lambda p=post: self._retract(p)) for post in self.posts]  # type: ignore[misc]
        left = []
        for what, take_back in wishes:
            try:
                take_back()
            except EXPECTED as error:
                left.append(f"{what}: {error}")
        return left

    def _steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "Nobody gets in without a valid token", self._refuse_strangers
        yield "A publisher publishes, and reads the post", self._publish_first
        yield "A user follows the publisher", self._follow
        yield "A post by HTTP reaches the follower", self._deliver_by_http
        yield "A post by the publish queue reaches the follower", self._deliver_by_queue
        yield "An edit shows", self._edit
        yield "The delivery is complete", self._complete
        yield "An unfollow hides the publisher", self._unfollow
        yield "A retracted post is gone", self._retract_all

    def _refuse_strangers(self) -> None:
        try:
            self.stranger.timeline.page(limit=1)
        except Refused as refused:
            if refused.status == UNAUTHORIZED:
                return
            raise
        raise ExpectedError("a request with a made-up token was answered")

    def _publish_first(self) -> None:
        ref_id = self._publish("first")
        self.publisher_id = self.publisher.post(ref_id)["publisher_id"]

    def _publish(self, which: str) -> str:
        body = {"title": f"{self.tag} {which}"}
        ref_id = self.publisher.publish(body, key=f"{self.tag}:{which}")["ref_id"]
        self.posts.append(ref_id)
        return ref_id

    def _follow(self) -> None:
        self.follower.follow(self.publisher_id)
        followed = {each["publisher_id"] for each in self.follower.following()}
        _expect(self.publisher_id in followed, "the list of follows lacks it")

    def _deliver_by_http(self) -> None:
        ref_id = self._publish("second")
        self._until(lambda: self._shown().get(ref_id) == {"title": f"{self.tag} second"})

    def _deliver_by_queue(self) -> None:
        ref_id, body = f"{self.tag}:third", {"title": f"{self.tag} third"}
        event = {
            "version": contract.VERSION,
            "type": contract.POST_PUBLISHED,
            "publisher_id": self.publisher_id,
            "ref_id": ref_id,
            "body": body,
        }
        self.posts.append(ref_id)
        self.queue.send(Message(event, group=self.publisher_id))
        self._until(lambda: self._shown().get(ref_id) == body)

    def _edit(self) -> None:
        body = {"title": f"{self.tag} edited"}
        self.publisher.edit(self.posts[-1], body)
        self._until(lambda: self._shown().get(self.posts[-1]) == body)

    def _complete(self) -> None:
        for ref_id in self.posts:
            self._until(lambda post=ref_id: self.publisher.delivery(post)["state"] == "complete")  # type: ignore[misc]

    def _unfollow(self) -> None:
        self.follower.unfollow(self.publisher_id)
        shown = self._shown()
        _expect(not shown.keys() & set(self.posts), "the timeline shows its posts")

    def _retract_all(self) -> None:
        for ref_id in self.posts:
            self._retract(ref_id)
            self._until(lambda post=ref_id: not self._is_there(post))  # type: ignore[misc]

    def _retract(self, ref_id: str) -> None:
        try:
            self.publisher.retract(ref_id)
        except Refused as refused:
            if refused.status != NOT_FOUND:  # It has never been accepted.
                raise

    def _is_there(self, ref_id: str) -> bool:
        try:
            self.publisher.post(ref_id)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return False
            raise
        return True

    def _shown(self) -> dict[str, Any]:
        """The bodies on the first page of the follower's timeline."""
        page = self.follower.timeline.page(limit=contract.MAX_LIMIT)
        return {entry["ref_id"]: entry["body"] for entry in page["entries"]}

    def _until(self, claim: Callable[[], bool]) -> None:
        end = clock.monotonic() + self.patience
        while not claim():
            _expect(clock.monotonic() < end, f"not within {self.patience:.0f} s")
            clock.sleep(POLL_SECONDS)


def _expect(claim: bool, otherwise: str) -> None:
    if not claim:
        raise ExpectedError(otherwise)
