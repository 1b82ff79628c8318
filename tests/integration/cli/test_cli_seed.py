"""`fanfold seed`: an import lets publishers grow, waits for the table, and can be repeated."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from fanfold import clock as product_clock
from fanfold import names
from fanfold.errors import TryLater, Unsent
from fanfold.follows.sharding import HOT_KEY_RANGE
from fanfold_cli import aws
from fanfold_cli.follows import seeding
from fanfold_cli.follows.graph import read
from fanfold_cli.local.home import Home
from fanfold_cli.terminal import ExpectedError
from tests.commands import FakeLambda, Patched, Ran, Stack, client_of, outputs, run, throttled
from tests.integration.follows.test_private import choose, decide, follow
from tests.service import AT_MS, REGION, Clock, System, error

Write = Callable[[int], str]


def seed(path: str, *options: str, lambda_: FakeLambda | None = None, **clients: Any) -> Ran:
    return run("seed", "--edges", path, *options, lambda_=lambda_ or FakeLambda(), **clients)


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
    ran = seed(graph(30), "--json", dynamodb=hot)
    assert (ran.exit_code, ran.json) == (0, {"follows": 30, "new": 30, "ended": 0, "kept": 0})
    assert system.publishers.shards("ada").level == 1
    (said,) = [line for line in ran.said.splitlines() if "write shards now" in line]
    assert "'ada' has 2 write shards now, after" in said


def test_an_import_leaves_requests_and_blocks_and_counts_as_approved(
    system: System, graph: Write
) -> None:
    choose(system, private=True)
    for user in ("user-0", "user-1"):
        assert follow(system, user).status == 202
    assert decide(system, "block", "user-1").status == 204
    assert decide(system, "block", "user-2").status == 204
    for options in ((), ("--again",)):
        before = system.dump()
        ran = seed(graph(4), "--json", *options)
        assert (ran.exit_code, ran.json) == (
            0, {"follows": 4, "new": int(not options), "ended": 0, "kept": 3}
        )  # fmt: skip
        assert "Left 3 follows out: a request waits" in ran.said
        assert "unfollowed" not in ran.said
    assert system.dump() == before
    rows = [system.follows.get(f"user-{number}", "ada") for number in range(4)]
    assert [row.state for row in rows] == ["requested", "unfollowed", "unfollowed", "followed"]
    assert [row.shut for row in rows] == [False, True, True, False]


def test_an_import_grows_no_further_than_the_stage_allows(system: System, graph: Write) -> None:
    began = product_clock.monotonic()
    stage = FakeLambda(max_level=0)
    ran = seed(graph(1), dynamodb=hot_table(system), lambda_=stage)
    assert ran.exit_code == 1
    assert product_clock.monotonic() - began > seeding.PATIENCE_SECONDS
    assert "too slowly" in ran.said
    assert "follows that were loaded stay" in ran.said
    assert system.publishers.shards("ada").level == 0


@pytest.mark.usefixtures("system")
def test_an_import_retries_throttled_calls_inside_the_client_except_those_for_edges() -> None:
    following = seeding.following(Stack(REGION, None, outputs(), {"lambda": FakeLambda()}))
    clients: list[Any] = [following.edges.edges_table.client, following.follows.client]
    attempts = [client.meta.config.retries["total_max_attempts"] for client in clients]
    assert attempts == [1, aws.ATTEMPTS]


@pytest.mark.parametrize("way", ["put", "ensure", "versions"])
def test_an_import_waits_for_a_throttled_table_before_it_gives_up(
    system: System, clock: Clock, way: str
) -> None:
    edges = seeding.following(Stack(REGION, None, outputs(), {"lambda": FakeLambda()})).edges
    client, operation = edges.edges_table.client, "put_item"
    if way == "versions":
        operation = "batch_get_item"
        system.edges_table.put("ada", "bob", version=1, level=0)
    free_at = clock.seconds + seeding.PATIENCE_SECONDS / 2
    plain = getattr(client, operation)

    def throttled_until_then(**request: Any) -> Any:
        return plain(**request) if clock.seconds >= free_at else throttled()

    def ask(user: str) -> None:
        if way == "versions":
            assert edges.versions([("ada", user)]) == {("ada", user): 1}
        else:
            getattr(edges, way)("ada", user, version=1)

    with patch.object(client, operation, throttled_until_then):
        ask("bob")
        assert system.edges() == ["bob"]
        free_at = clock.seconds + 2 * seeding.PATIENCE_SECONDS
        with pytest.raises(TryLater):
            ask("carol")


def test_an_import_that_is_repeated_after_a_growth_puts_no_second_edges(
    system: System, graph: Write
) -> None:
    for level in range(3):
        system.publishers.raise_to("ada", level, now_ms=AT_MS)
        ran = seed(graph(5), "--json")
        assert ran.exit_code == 0
        assert system.edges() == [f"user-{number}" for number in range(5)]


@pytest.mark.usefixtures("system")
def test_an_import_that_cannot_read_the_settings_says_so_in_a_sentence(graph: Write) -> None:
    functions: Any = FakeLambda()
    functions.get_function_configuration = throttled
    ran = seed(graph(1), lambda_=functions)
    assert ran.exit_code == 1
    assert ran.said.startswith("The settings of the stage cannot be read, so nothing was loaded:")


def test_a_second_import_follows_again_for_nobody_who_has_unfollowed_unless_it_is_told_to(
    system: System, graph: Write
) -> None:
    path = graph(2)
    seed(path)
    assert system.unfollow("user-1").status == 204
    system.pump()
    ran = seed(path, "--backfill")
    assert (ran.exit_code, ran.stdout) == (0, "Loaded 1 follow (0 new).\n")
    assert "Left 1 follow ended, by the user or the publisher. With --again, " in ran.said
    ran = seed(path, "--json")
    assert ran.json == {"follows": 2, "new": 0, "ended": 1, "kept": 0}
    assert system.edges() == ["user-0"]
    ran = seed(path, "--again", "--json")
    assert ran.json == {"follows": 2, "new": 1, "ended": 0, "kept": 0}
    assert system.edges() == ["user-0", "user-1"]


def post_and_seed(system: System, path: str, *options: str, workers: int = 20) -> Ran:
    """Seed, where `ada` has a post from before."""
    assert system.publish(user="ada").status == 202
    system.pump()
    functions = FakeLambda()
    functions.workers = workers
    return seed(path, *options, lambda_=functions)


def test_an_import_brings_older_posts_only_if_it_is_asked_to(system: System, graph: Write) -> None:
    path = graph(12)
    ran = post_and_seed(system, path)
    assert "brings no older posts" in ran.said
    assert "--backfill" in ran.said
    assert system.waiting("Relation") == 0
    users = [f"user-{number}" for number in range(12)]
    assert not any(system.timeline(user).body["entries"] for user in users)
    ran = post_and_seed(system, path, "--backfill", "--json")
    assert (ran.exit_code, ran.json) == (
        0,
        {"follows": 12, "new": 0, "ended": 0, "kept": 0, "backfills": 12},
    )
    assert "bring up to 30 older posts each" in ran.said
    assert "brings no older posts" not in ran.said
    system.pump()
    assert {len(system.timeline(user).body["entries"]) for user in users} == {1}
    before = system.rows(names.TIMELINES)
    assert post_and_seed(system, path, "--backfill", "--json").json["backfills"] == 12
    system.pump()
    assert system.rows(names.TIMELINES) == before


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
    ran = seed(graph(1), "--backfill", lambda_=FakeLambda(backfill=0))
    assert ran.exit_code == 1
    assert "-c backfill=" in ran.said
    assert system.edges() == []


class Expiring:
    """SQS that takes so many batches before the credentials end, and counts who is ordered."""

    def __init__(self, batches: int, end: BaseException) -> None:
        self.batches, self.end, self.ordered = batches, end, list[str]()
        self.client = client_of("sqs", None, REGION)

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
        (Unsent("refused"), "Stopped: older posts of 10 of 25 follows are ordered; "),
        (KeyboardInterrupt(), "Interrupted: older posts of 10 of 25 follows are ordered; "),
    ],
)
def test_older_posts_whose_orders_stop_are_ordered_from_there_on(
    system: System, graph: Write, end: BaseException, says: str
) -> None:
    path = graph(25)
    users = sorted(f"user-{number}" for number in range(25))
    sqs, more = Expiring(1, end), Expiring(9, end)
    ran = seed(path, "--backfill", sqs=sqs)
    assert (bool(ran.exit_code), sqs.ordered) == (True, users[:10])
    assert says in ran.said
    assert f"go on by the same command with --from ada,{users[10]}" in ran.said
    ran = seed(path, "--backfill", "--from", f"ada,{users[10]}", "--json", sqs=more)
    assert (ran.exit_code, ran.json["backfills"], more.ordered) == (0, 15, users[10:])
    assert "15 follows bring up to 30 older posts" in ran.said


@pytest.mark.parametrize("place", ["ada", "ada,nobody", "user-0,ada", ""])
def test_a_place_that_is_no_follow_of_the_file_is_refused(
    system: System, graph: Write, place: str
) -> None:
    ran = seed(graph(1), "--backfill", "--from", place)
    assert ran.exit_code
    assert "--from must be a follow of the file, PUBLISHER,FOLLOWER" in ran.said
    ran = seed(graph(1), "--from", "ada,user-0")
    assert (ran.exit_code, system.edges()) == (2, [])


def test_older_posts_that_cost_more_than_a_dollar_are_asked_about(
    system: System, graph: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeding, "UNASKED", 0.00001)
    ran = seed(graph(1), "--backfill")
    assert (ran.exit_code, system.edges(), system.waiting("Relation")) == (1, [], 0)
    assert "--yes answers the question" in ran.said
    assert seed(graph(1), "--backfill", "--yes").exit_code == 0
    assert system.edges() == ["user-0"]


def test_an_import_of_existing_follows_writes_nothing_and_reads_in_batches(
    system: System, graph: Write
) -> None:
    path = graph(120)
    assert seed(path).exit_code == 0
    reads: list[Any] = []

    def batch_get_item(**request: Any) -> Any:
        reads.append(request)
        return only_reads.client.batch_get_item(**request)

    writes = ("batch_write_item", "put_item", "transact_write_items", "update_item", "query")
    refused = Mock(side_effect=AssertionError)
    only_reads = Patched(batch_get_item=batch_get_item, **dict.fromkeys(writes, refused))
    again = seed(path, "--json", dynamodb=only_reads)
    assert (again.exit_code, again.json) == (0, {"follows": 120, "new": 0, "ended": 0, "kept": 0})
    assert len(reads) == 4  # 100 edges and their rows, and 20


@pytest.mark.usefixtures("system")
def test_a_user_who_follows_more_than_one_read_takes_is_loaded_by_one_thread() -> None:
    follows = {"amy": ["x"] * 60, "ben": ["x"] * 40, "cleo": ["x"] * 250, "dan": ["x"]}
    assert list(seeding._together(follows)) == [["amy", "ben"], ["cleo"], ["dan"]]
    assert list(seeding._together({})) == []


@pytest.mark.parametrize("at", ["follows.graph.read", "progress.Bar.advance"])
def test_an_interrupted_import_says_what_stays(
    system: System, graph: Write, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(f"fanfold_cli.{at}", Mock(side_effect=KeyboardInterrupt))
    ran = seed(graph(2))
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert "Interrupted: follows that were loaded stay; run it again." in ran.said
    assert bool(system.edges()) is at.endswith("advance")


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
    done = seed(str(path), lambda_=functions)
    assert done.exit_code == 1
    assert "'aaron' (3)" in done.said
    assert "(2 new)" in done.said
    assert sorted(system.edges("ada")) == ["bob", "zoe"]
