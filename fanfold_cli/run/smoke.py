"""`fanfold smoke`: test a deployed stage with new users, and delete them afterwards."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from fanfold import clock, names
from fanfold_cli.aws import EXPECTED
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.run.people import FOLLOWS, People
from fanfold_cli.run.record import Post
from fanfold_cli.run.verdict import judge
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, WrongValue, print_json, print_result, say
from fanfold_client import Failed, Refused

# Much longer than a delivery to one follower takes, even with cold starts.
PATIENCE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5
# With spaces, which ids cannot have.
CLIENTS = PUBLISHER, FOLLOWER, STRANGER = "the publisher", "the follower", "the stranger"
ROLES = ("publisher", "follower")
VARIABLE = "FANFOLD_{}_TOKEN"
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404


def smoke(
    stack: StackOption = None,
    home: HomeOption = None,
    patience: Annotated[
        float, typer.Option(min=1, help="Seconds that each step may take.")
    ] = PATIENCE_SECONDS,
    publisher_token: Annotated[
        str | None,
        typer.Option(
            envvar=VARIABLE.format("PUBLISHER"),
            help="Access token of a test user, where the stack has no pool.",
        ),
    ] = None,
    follower_token: Annotated[
        str | None,
        typer.Option(envvar=VARIABLE.format("FOLLOWER"), help="Access token of another one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try a deployed stage as two users made for it: publish, follow, read, edit, retract.

    At the end, also after a failure, posts, follow and users are deleted.
    """
    deployment = Deployment.to_change(stack, home)
    tokens = [token for token in (publisher_token, follower_token) if token]
    if len(tokens) == 1:
        raise WrongValue("Give the tokens of both users, or of neither.")
    made = [] if tokens else _new_users(deployment)
    steps: list[Step] = []
    current: Smoke | None = None
    try:
        tokens = tokens or [deployment.token(user) for user in made]
        people = People(deployment, seconds=patience)
        for role, token in zip(CLIENTS, (*tokens, "not-a-token"), strict=True):
            people.sign_in(role, token)
        current = Smoke(people, f"smoke-{secrets.token_hex(6)}")
        for step in current.run():
            steps.append(step)
            if not as_json:
                print_result(step.line)
    finally:
        undo = current.undo() if current is not None else []
        undo += [(f"the user {user}", lambda u=user: deployment.delete_user(u)) for user in made]  # type: ignore[misc]
        left = taken_back(undo)
        for what in left:
            say(f"Left behind: {what}")
    is_right = not left and all(not step.failure for step in steps)
    if as_json:
        print_json({"is_right": is_right, "steps": [asdict(step) for step in steps], "left": left})
    elif is_right:
        print_result("The stage works, and nothing is left behind.")
    if not is_right:
        raise typer.Exit(1)


def _new_users(deployment: Deployment) -> list[str]:
    if names.USER_POOL_ID_OUTPUT not in deployment.outputs:
        raise WrongValue(
            "The users of this stack come from an issuer, so none can be created: set "
            f"{' and '.join(VARIABLE.format(role.upper()) for role in ROLES)} to access tokens of "
            "two test users."
        )
    run = secrets.token_hex(6)
    return [f"fanfold-smoke-{run}-{role}" for role in ROLES]


def taken_back(undo: Iterable[tuple[str, Callable[[], object]]]) -> list[str]:
    """Undo everything, even if some fails; return what could not be undone."""
    left = []
    for what, take_back in undo:
        try:
            take_back()
        except (*EXPECTED, Failed) as error:
            left.append(f"{what}: {error}")
    return left


@dataclass(frozen=True)
class Step:
    """One step of the test; `failure` is a sentence, or empty."""

    name: str
    seconds: float
    failure: str = ""

    @property
    def line(self) -> str:
        outcome = f"FAILED: {self.failure}" if self.failure else "ok"
        return f"{self.seconds:6.1f} s  {self.name}: {outcome}"


@dataclass
class Smoke:
    """A publisher, a follower, and a stranger without a valid token; `tag` makes ids unique."""

    people: People
    tag: str
    publisher_id: str = ""

    @property
    def posts(self) -> list[Post]:
        return list(self.people.record.posts.values())

    def run(self) -> Iterator[Step]:
        """Take the steps, up to the first that fails."""
        for name, take in self._steps():
            began, failure = clock.monotonic(), ""
            try:
                with waiting_for(name):
                    take()
            except (*EXPECTED, Failed) as error:
                failure = str(error)
            yield Step(name, clock.monotonic() - began, failure)
            if failure:
                return

    def undo(self) -> list[tuple[str, Callable[[], object]]]:
        """What undoes the follow and the posts."""
        follow = [("the follow", self._unfollow)] if self.publisher_id else []
        posts = ((f"the post {p.ref_id}", lambda p=p: self._retract(p)) for p in self.posts)
        return [*follow, *posts]

    def _steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "Nobody gets in without a valid token", self._refuse_strangers
        yield "A publisher publishes, and reads the post", self._publish_first
        yield "A user follows the publisher", self._follow
        yield "A post by HTTP reaches the follower", self._deliver_by_http
        yield "A post by the publish queue reaches the follower", self._deliver_by_queue
        yield "An edit shows", self._edit
        yield "The delivery is complete", self._complete
        yield "An unfollow hides the publisher", self._hide
        yield "A retracted post is gone", self._retract_all

    def _refuse_strangers(self) -> None:
        try:
            self.people.api(STRANGER).timeline.page(limit=1)
        except Refused as refused:
            if refused.status == UNAUTHORIZED:
                return
            raise
        raise ExpectedError("a request with a made-up token was answered")

    def _publish_first(self) -> None:
        """The post shows the user's id, which the token does not."""
        post = self._publish(PUBLISHER, "first")
        publisher = self.people.api(PUBLISHER)
        self.publisher_id = post.publisher = publisher.post(post.ref_id)["publisher_id"]
        self.people.apis[self.publisher_id] = publisher

    def _publish(self, publisher: str, which: str) -> Post:
        return self.people.publish(publisher, self._body(which), key=f"{self.tag}:{which}")

    def _body(self, which: str) -> dict[str, str]:
        return {"title": f"{self.tag} {which}"}

    def _follow(self) -> None:
        self.people.want(FOLLOWS, FOLLOWER, self.publisher_id, True)
        follower, publisher = self.people.api(FOLLOWER), self.people.api(PUBLISHER)
        # Where publishers are private by default; the follower's id is known only from its request.
        asked = [
            each["requested_at"]
            for each in follower.sent_requests()
            if each["publisher_id"] == self.publisher_id
        ]
        for each in publisher.requests() if asked else ():
            if each["requested_at"] in asked:
                publisher.approve(each["user_id"])
        followed = {each["publisher_id"] for each in follower.following()}
        _expect(self.publisher_id in followed, "the list of follows lacks it")

    def _deliver_by_http(self) -> None:
        self._until_shown(self._publish(self.publisher_id, "second"))

    def _deliver_by_queue(self) -> None:
        third = f"{self.tag}:third"
        post = Post(third, self.publisher_id, "", clock.now_ms() / 1000, self._body("third"))
        self.people.send(post)
        self._until_shown(post)
        post.published_at = self.people.api(PUBLISHER).post(third)["published_at"]  # now known

    def _edit(self) -> None:
        post = self.posts[-1]
        post.body = self._body("edited")
        self.people.api(self.publisher_id).edit(post.ref_id, post.body)
        self._until_shown(post)

    def _complete(self) -> None:
        for post in self.posts:
            self._until(lambda p=post: "" if self.people.is_delivered(p) else p.answer)  # type: ignore[misc]
        self._until(self._complaints)  # other containers may show an old body for some seconds

    def _hide(self) -> None:
        self._unfollow()
        _expect(not (wrong := self._complaints()), wrong)

    def _unfollow(self) -> None:
        self.people.want(FOLLOWS, FOLLOWER, self.publisher_id, False)

    def _retract_all(self) -> None:
        publisher = self.people.api(PUBLISHER)
        for post in self.posts:
            self._retract(post)
            self._until(lambda p=post: "it is there" if _finds(publisher.post, p) else "")  # type: ignore[misc]

    def _retract(self, post: Post) -> None:
        _finds(self.people.api(PUBLISHER).retract, post)  # it may never have been accepted

    def _complaints(self) -> str:
        """What is wrong with the first page of the follower's timeline, by the record."""
        reading = self.people.read(FOLLOWER, pages=1, hydrate=True)
        # Users whose tokens were given may have other entries.
        return "; ".join(judge(self.people.record, [reading], ours=None).complaints)

    def _until_shown(self, post: Post) -> None:
        """Wait until the first page of the follower's timeline shows the post with its body."""

        def wrong() -> str:
            reading = self.people.read(FOLLOWER, pages=1, hydrate=True)
            shown = {each["ref_id"]: each["body"] for each in reading.entries}
            return "" if shown.get(post.ref_id) == post.body else "the timeline does not show it"

        self._until(wrong)

    def _until(self, wrong: Callable[[], str]) -> None:
        end = clock.monotonic() + self.people.seconds
        while sentence := wrong():
            _expect(clock.monotonic() < end, f"not within {self.people.seconds:.0f} s: {sentence}")
            clock.sleep(POLL_SECONDS)


def _finds(ask: Callable[[str], object], post: Post) -> bool:
    try:
        ask(post.ref_id)
    except Refused as refused:
        if refused.status == NOT_FOUND:
            return False
        raise
    return True


def _expect(claim: bool, otherwise: str) -> None:
    if not claim:
        raise ExpectedError(otherwise)
