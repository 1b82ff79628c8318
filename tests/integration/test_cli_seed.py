"""`fanfold seed`: an import lets publishers grow, waits for the table, and can be repeated."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

from fanfold import clock as product_clock
from fanfold import names
from fanfold.aws.queues import WorkQueue
from fanfold.errors import TryLater, Unsent
from fanfold.follows.patience import ATTEMPTS
from fanfold.follows.sharding import HOT_KEY_RANGE
from fanfold_cli import aws, seeding
from fanfold_cli.console import ExpectedError
from fanfold_cli.graph import read
from fanfold_cli.local.home import Home
from tests.integration.cli import FakeLambda, Patched, Ran, Stack, outputs, run
from tests.integration.system import AT_MS, REGION, Clock, System, error

Write = Callable[[int], str]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moto's transactions roll back the writes of others."""
    monkeypatch.setattr(seeding, "THREADS", 1)


@pytest.fixture
def graph(tmp_path: Path) -> Write:
    def write(count: int) -> str:
        path = tmp_path / "follows.csv"
        lines = [f"ada,user-{number}" for number in range(count)]
        path.write_text("\n".join(["publisher,follower", *lines]))
        return str(path)

    return write


def hot_table(system: System) -> Patched:
    """DynamoDB whose partition of `ada` is throttled while she has one shard."""

    def is_hot(shard_id: str) -> bool:
        if shard_id != "ada#0.0":
            return False
        system.clock.advance(1)
        # Follows accepted elsewhere, so that the rate of this publisher justifies a growth.
        system.publishers.count("ada", 1_000, now_ms=system.clock.ms)
        return True

    def batch_write_item(*, RequestItems: Any) -> Any:  # noqa: N803
        (table, requests), *_ = RequestItems.items()
        if is_hot(requests[0]["PutRequest"]["Item"]["shard_id"]["S"]):
            return {"UnprocessedItems": {table: requests}}
        return hot.client.batch_write_item(RequestItems=RequestItems)

    def put_item(**request: Any) -> Any:
        if is_hot(request["Item"].get("shard_id", {}).get("S", "")):
            response: Any = {
                "Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"},
                "ThrottlingReasons": [{"reason": HOT_KEY_RANGE, "resource": "the table"}],
            }
            raise ClientError(response, "PutItem")
        return hot.client.put_item(**request)

    hot = Patched(batch_write_item=batch_write_item, put_item=put_item)
    return hot


def test_an_import_lets_its_publisher_grow_and_says_so_once(system: System, graph: Write) -> None:
    hot = hot_table(system)
    ran = run("seed", "--edges", graph(30), "--json", dynamodb=hot, lambda_=FakeLambda())
    assert (ran.exit_code, ran.json) == (0, {"follows": 30, "new": 30, "ended": 0})
    assert system.publishers.shards("ada").level == 1
    (said,) = [line for line in ran.said.splitlines() if "write shards now" in line]
    assert "'ada' has 2 write shards now, after" in said


def test_an_import_grows_no_further_than_the_stage_allows(system: System, graph: Write) -> None:
    began = product_clock.monotonic()
    stage = FakeLambda(max_level=0)
    ran = run("seed", "--edges", graph(1), dynamodb=hot_table(system), lambda_=stage)
    assert ran.exit_code == 1
    assert product_clock.monotonic() - began > seeding.PATIENCE_SECONDS
    assert "too slowly" in ran.said
    assert "follows that were loaded stay" in ran.said
    assert system.publishers.shards("ada").level == 0


class Raw:
    """A body of one chunk, as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self) -> Iterator[bytes]:
        yield self.body


@pytest.mark.usefixtures("system")
def test_an_import_retries_throttled_calls_inside_the_client_except_those_for_edges() -> None:
    stack = Stack(REGION, None, outputs(), {"lambda": FakeLambda()})
    following = seeding.following(stack)
    calls: list[str] = []

    def throttle(request: Any, **_event: Any) -> AWSResponse:
        calls.append(request.url)
        body = b'{"__type": "ProvisionedThroughputExceededException", "message": "slow down"}'
        return AWSResponse(request.url, 400, HTTPHeaders(), Raw(body))

    def attempts(client: Any) -> int:
        client.meta.events.register_first("before-send.dynamodb", throttle)
        calls.clear()
        with pytest.raises(ClientError, match="slow down"):
            client.get_item(TableName="any", Key={"any": {"S": "any"}})
        return len(calls)

    with patch("time.sleep"):
        assert attempts(following.edges.edges_table.client) == 1
        assert attempts(following.follows.client) == 3


def test_an_import_waits_while_edges_cannot_be_read(system: System, graph: Write) -> None:
    calls: list[Any] = []

    def batch_get_item(**request: Any) -> Any:
        calls.append(request)
        if len(calls) <= 2 * ATTEMPTS:
            raise error("ThrottlingException")
        return slow.client.batch_get_item(**request)

    slow = Patched(batch_get_item=batch_get_item)
    ran = run("seed", "--edges", graph(1), "--json", dynamodb=slow, lambda_=FakeLambda())
    assert (ran.exit_code, ran.json["new"]) == (0, 1)
    assert system.edges() == ["user-0"]


@pytest.mark.parametrize("way", ["put", "ensure"])
def test_an_import_waits_for_a_throttled_table_before_it_gives_up(
    system: System, clock: Clock, way: str
) -> None:
    stack = Stack(REGION, None, outputs(), {"lambda": FakeLambda()})
    edges = seeding.following(stack).edges
    free_at = clock.seconds + seeding.PATIENCE_SECONDS / 2
    plain = edges.edges_table.client.put_item

    def put_item(**request: Any) -> Any:
        if clock.seconds < free_at:
            raise error("ThrottlingException")
        return plain(**request)

    with patch.object(edges.edges_table.client, "put_item", put_item):
        getattr(edges, way)("ada", "bob", version=1)
        assert system.edges() == ["bob"]
        free_at = clock.seconds + 2 * seeding.PATIENCE_SECONDS
        with pytest.raises(TryLater):
            getattr(edges, way)("ada", "carol", version=1)


def test_an_import_that_is_repeated_after_a_growth_puts_no_second_edges(
    system: System, graph: Write
) -> None:
    for level in range(3):
        system.publishers.raise_to("ada", level, now_ms=AT_MS)
        ran = run("seed", "--edges", graph(5), "--json", lambda_=FakeLambda())
        assert ran.exit_code == 0
        assert system.edges() == [f"user-{number}" for number in range(5)]


def test_an_import_survives_a_lost_connection(
    system: System, graph: Write, fail_first: Callable[..., list[Any]]
) -> None:
    lost = ConnectTimeoutError(endpoint_url="https://dynamodb")
    client = aws.client("dynamodb", None, REGION)
    calls = fail_first(client, "batch_write_item", [lost])
    with patch.object(product_clock, "sleep"):
        ran = run("seed", "--edges", graph(2), "--json", dynamodb=client, lambda_=FakeLambda())
    assert ran.json["new"] == 2
    assert len(calls) == 2, "one for each user"
    assert system.edges() == ["user-0", "user-1"]


def test_an_import_that_cannot_read_the_settings_says_so_in_a_sentence(
    system: System, graph: Write
) -> None:
    class Throttled(FakeLambda):
        def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
            raise error("TooManyRequestsException")

    ran = run("seed", "--edges", graph(1), lambda_=Throttled())
    assert ran.exit_code == 1
    assert ran.said.startswith("The settings of the stage cannot be read, so nothing was loaded:")


def test_an_import_says_how_many_follows_are_new(system: System, graph: Write) -> None:
    for count, new in ((1, 1), (1, 0)):
        ran = run("seed", "--edges", graph(count), lambda_=FakeLambda())
        assert ran.stdout == f"Loaded 1 follow ({new} new).\n"
        assert ("brings no older posts" in ran.said) is bool(new)


def test_a_second_import_follows_again_for_nobody_who_has_unfollowed_unless_it_is_told_to(
    system: System, graph: Write
) -> None:
    path = graph(2)
    run("seed", "--edges", path, lambda_=FakeLambda())
    assert system.unfollow("user-1").status == 204
    system.pump()
    ran = run("seed", "--edges", path, "--backfill", lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (0, "Loaded 1 follow (0 new).\n")
    assert "Left 1 follow ended: the user has unfollowed. With --again, " in ran.said
    ran = run("seed", "--edges", path, "--json", lambda_=FakeLambda())
    assert ran.json == {"follows": 2, "new": 0, "ended": 1}
    assert system.edges() == ["user-0"]
    ran = run("seed", "--edges", path, "--again", "--json", lambda_=FakeLambda())
    assert ran.json == {"follows": 2, "new": 1, "ended": 0}
    assert system.edges() == ["user-0", "user-1"]


def post_and_seed(system: System, path: str, *arguments: str, workers: int = 20) -> Ran:
    """Seed, where `ada` has a post from before."""
    assert system.publish(user="ada").status == 202
    system.pump()
    functions = FakeLambda()
    functions.workers = workers
    return run("seed", "--edges", path, *arguments, lambda_=functions)


def entries(system: System, user: str) -> list[str]:
    return [each["ref_id"] for each in system.timeline(user).body["entries"]]


def test_an_import_brings_older_posts_if_it_is_asked_to(system: System, graph: Write) -> None:
    path = graph(12)
    ran = post_and_seed(system, path, "--backfill", "--json")
    assert (ran.exit_code, ran.json) == (0, {"follows": 12, "new": 12, "ended": 0, "backfills": 12})
    assert "bring up to 30 older posts each" in ran.said
    assert "brings no older posts" not in ran.said
    system.pump()
    assert all(len(entries(system, f"user-{number}")) == 1 for number in range(12))
    before = system.rows(names.TIMELINES)
    again = post_and_seed(system, path, "--backfill", "--json")
    assert again.json == {"follows": 12, "new": 0, "ended": 0, "backfills": 12}
    system.pump()
    assert system.rows(names.TIMELINES) == before


def test_an_import_brings_none_unless_it_is_asked_to(system: System, graph: Write) -> None:
    ran = post_and_seed(system, graph(1))
    assert "--backfill" in ran.said
    assert system.waiting("Relation") == 0
    assert entries(system, "user-0") == []


def test_no_order_of_an_import_waits_behind_the_others(
    system: System, clock: Clock, graph: Write
) -> None:
    """Or it would bring ten posts instead of thirty: RELATE has to keep up with what is sent."""
    began = clock.seconds
    post_and_seed(system, graph(100), "--backfill", workers=1)  # of 200 entries a second
    sent = clock.seconds - began
    assert sent >= 0.85 * 100 * 30 / (200 * seeding.BACKFILL_SHARE)
    assert system.waiting("Relation") == 100


def test_a_stage_that_brings_no_posts_says_so_before_it_loads(system: System, graph: Write) -> None:
    ran = run("seed", "--edges", graph(1), "--backfill", lambda_=FakeLambda(backfill=0))
    assert ran.exit_code == 1
    assert "-c backfill=" in ran.said
    assert system.edges() == []


def test_orders_that_the_queue_refuses_can_be_sent_by_the_same_command(
    system: System, graph: Write
) -> None:
    with patch.object(WorkQueue, "send", side_effect=Unsent("the queue is away")):
        ran = run("seed", "--edges", graph(1), "--backfill", lambda_=FakeLambda())
    assert ran.exit_code == 1
    assert "go on by the same command with --from ada,user-0: the queue is away" in ran.said
    assert system.edges() == ["user-0"]


class Expiring:
    """SQS that takes so many batches before the credentials end, and counts who is ordered."""

    def __init__(self, batches: int, end: BaseException) -> None:
        self.batches, self.end, self.ordered = batches, end, list[str]()
        self.client = aws.client("sqs", None, REGION)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def send_message_batch(self, *, QueueUrl: str, Entries: Any) -> Any:  # noqa: N803
        if not self.batches:
            raise self.end
        self.batches -= 1
        self.ordered += [json.loads(each["MessageBody"])["user_id"] for each in Entries]
        return self.client.send_message_batch(QueueUrl=QueueUrl, Entries=Entries)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (error("ExpiredToken", 403), "Stopped: older posts of 10 of 25 follows are ordered; "),
        (KeyboardInterrupt(), "Interrupted: older posts of 10 of 25 follows are ordered; "),
    ],
)
def test_older_posts_whose_orders_stop_are_ordered_from_there_on(
    system: System, graph: Write, end: BaseException, says: str
) -> None:
    seed = ("seed", "--edges", graph(25), "--backfill")
    users = sorted(f"user-{number}" for number in range(25))
    ran = run(*seed, lambda_=FakeLambda(), sqs=(sqs := Expiring(1, end)))
    assert (bool(ran.exit_code), sqs.ordered) == (True, users[:10])
    assert says in ran.said
    assert f"go on by the same command with --from ada,{users[10]}" in ran.said
    more = Expiring(9, end)
    ran = run(*seed, "--from", f"ada,{users[10]}", "--json", lambda_=FakeLambda(), sqs=more)
    assert (ran.exit_code, ran.json["backfills"], more.ordered) == (0, 15, users[10:])
    assert "15 follows bring up to 30 older posts" in ran.said


@pytest.mark.parametrize("place", ["ada", "ada,nobody", "nobody,user-0", "user-0,ada", ",", ""])
def test_a_place_that_is_no_follow_of_the_file_is_refused(
    system: System, graph: Write, place: str
) -> None:
    ran = run("seed", "--edges", graph(1), "--backfill", "--from", place, lambda_=FakeLambda())
    assert ran.exit_code
    assert "--from must be a follow of the file, PUBLISHER,FOLLOWER" in ran.said
    ran = run("seed", "--edges", graph(1), "--from", "ada,user-0", lambda_=FakeLambda())
    assert (ran.exit_code, system.edges()) == (2, [])


def test_older_posts_that_cost_more_than_a_dollar_are_asked_about(
    system: System, graph: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "UNASKED", 0.00001)
    seed = ("seed", "--edges", graph(1), "--backfill")
    ran = run(*seed, lambda_=FakeLambda())
    assert (ran.exit_code, system.edges(), system.waiting("Relation")) == (1, [], 0)
    assert "--yes answers the question" in ran.said
    assert run(*seed, "--yes", lambda_=FakeLambda()).exit_code == 0
    assert system.edges() == ["user-0"]


def refused(**_request: Any) -> Any:
    raise AssertionError("A repeated import writes nothing, and asks for no user by itself.")


def test_an_import_of_what_is_there_writes_nothing(system: System, graph: Write) -> None:
    path = graph(120)
    assert run("seed", "--edges", path, lambda_=FakeLambda()).exit_code == 0
    reads: list[Any] = []

    def batch_get_item(**request: Any) -> Any:
        reads.append(request)
        return only_reads.client.batch_get_item(**request)

    writes = ("batch_write_item", "put_item", "transact_write_items", "update_item", "query")
    only_reads = Patched(batch_get_item=batch_get_item, **dict.fromkeys(writes, refused))
    again = run("seed", "--edges", path, "--json", dynamodb=only_reads, lambda_=FakeLambda())
    assert (again.exit_code, again.json) == (0, {"follows": 120, "new": 0, "ended": 0})
    assert len(reads) == 4  # 100 edges and their rows, and 20


@pytest.mark.usefixtures("system")
def test_a_user_who_follows_more_than_one_read_takes_is_loaded_by_one_thread() -> None:
    follows = {"amy": ["x"] * 60, "ben": ["x"] * 40, "cleo": ["x"] * 250, "dan": ["x"]}
    assert list(seeding._together(follows)) == [["amy", "ben"], ["cleo"], ["dan"]]
    assert list(seeding._together({})) == []


def test_an_interrupted_import_says_what_stays(
    system: System, graph: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fanfold_cli.progress.Bar.advance", interrupt)
    ran = run("seed", "--edges", graph(2), lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert "Interrupted: follows that were loaded stay; run it again." in ran.said
    assert system.edges()


@pytest.mark.network
@pytest.mark.parametrize("answers", [True, False])
def test_an_import_into_an_engine_that_has_ended_does_not_say_that_follows_stay(
    system: System, graph: Write, answers: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(seeding, "PATIENCE_SECONDS", 0.0)

    def fail(**_request: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="x")

    dynamodb = Patched(batch_write_item=fail, put_item=fail, update_item=fail)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if answers:
            listening.listen()
        endpoint = aws.LocalEndpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", "key")
        clients = {"dynamodb": dynamodb, "lambda": FakeLambda(), "sqs": system.sqs}
        home = Home(tmp_path)
        engine = Stack(REGION, endpoint, outputs(), clients, home=home)
        with pytest.raises(ExpectedError) as raised, patch.object(product_clock, "sleep"):
            seeding.seed(engine, read(Path(graph(1))))
    said = str(raised.value)
    assert ("follows that were loaded stay" in said) is answers
    assert ("The local engine has ended" in said) is not answers
    assert (f"run {home.command('up')}, and then this again" in said) is not answers
    assert str(tmp_path) in home.command("up")


def test_a_user_beyond_the_limit_stops_nobody_else(system: System, tmp_path: Path) -> None:
    path = tmp_path / "follows.csv"
    greedy = [f"publisher-{number},aaron" for number in range(3)]
    path.write_text("\n".join(["publisher,follower", *greedy, "ada,bob", "ada,zoe"]))
    functions = FakeLambda()
    functions.variables["MAX_FOLLOWS"] = "2"
    done = run("seed", "--edges", str(path), lambda_=functions)
    assert done.exit_code == 1
    assert "'aaron' (3)" in done.said
    assert "(2 new)" in done.said
    assert sorted(system.edges("ada")) == ["bob", "zoe"]
