"""`fanfold shards`: shown, grown and kept at a level; and an import that lets them grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError, ConnectTimeoutError

from fanfold import clock as product_clock
from fanfold import names, times
from fanfold.errors import TryLater
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.growth import Growing
from fanfold.follows.levels import Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import HOT_KEY_RANGE, WINDOW_SECONDS, Shards
from fanfold_cli import aws, seeding, shard_report
from tests.integration.cli import Ran, Stack, outputs, run
from tests.integration.system import AT, AT_MS, REGION, Clock, System, error, settings


class FakeLambda:
    """Says what feeds a queue, and what its function is told."""

    def __init__(self, max_level: int = 8) -> None:
        self.variables = replace(settings(), max_level=max_level).to_env()

    def list_event_source_mappings(self, *, EventSourceArn: str) -> Any:  # noqa: N803
        assert EventSourceArn.endswith(":Publish")
        return {"EventSourceMappings": [{"FunctionArn": "the-plan"}]}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        assert FunctionName == "the-plan"
        return {"Environment": {"Variables": self.variables}}


class Patched:
    """DynamoDB with some of its calls replaced."""

    def __init__(self, **calls: Any) -> None:
        self.calls, self.client = calls, aws.client("dynamodb", None, REGION)

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name) or getattr(self.client, name)


def throttled(**_request: Any) -> Any:
    raise error("ThrottlingException")


@pytest.fixture
def publishers(system: System) -> PublishersTable:
    return PublishersTable(system.dynamodb, system.settings.publishers_table)


@pytest.fixture
def edges_table(system: System) -> EdgesTable:
    return EdgesTable(system.dynamodb, system.settings.followers_table)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions of the commands; each is answered with no."""
    questions: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        assert err, "stdout is for the result"
        questions.append(question)
        return False

    monkeypatch.setattr("fanfold_cli.commands.shards.typer.confirm", confirm)
    return questions


def shards_of(*arguments: str, max_level: int = 8, **clients: Any) -> Ran:
    return run("shards", *arguments, lambda_=FakeLambda(max_level), **clients)


def raise_to(publishers: PublishersTable, *levels: int) -> None:
    for level in levels:
        seen = publishers.shards("ada")
        wish = replace(seen, level=level, version=seen.version + 1, last_updated=AT_MS)
        assert publishers.update("ada", seen=seen, shards=wish)


# show


def test_show_counts_every_shard_of_every_level(
    edges_table: EdgesTable, publishers: PublishersTable
) -> None:
    raise_to(publishers, 2)
    users = [f"user-{number}" for number in range(60)]
    assert not edges_table.put_all(
        ("ada", user, 1, level) for level, user in zip([0, 1, 2] * 20, users, strict=True)
    )
    shown = shards_of("show", "ada", "--json").json
    assert (shown["level"], shown["shards"], shown["edges"]) == (2, 4, 60)
    assert (shown["version"], shown["last_growth"], shown["estimated"]) == (1, AT, False)
    assert [len(level["shards"]) for level in shown["levels"]] == [1, 2, 4]
    for level in shown["levels"]:
        assert sum(level["shards"]) == level["edges"] == 20
        assert level["largest"] == max(level["shards"])
        assert level["skew"] == pytest.approx(level["largest"] / (20 / len(level["shards"])))


def test_show_counts_a_shard_of_several_pages_whole_and_estimates_it_from_the_first(
    edges_table: EdgesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_report, "COUNT_PAGE", 250)
    assert not edges_table.put_all(("ada", f"user-{number}", 1, 0) for number in range(1_000))
    assert shards_of("show", "ada", "--json").json["edges"] == 1_000
    shown = shards_of("show", "ada", "--estimate", "--json").json
    assert shown["estimated"] is True
    assert shown["edges"] == pytest.approx(1_000, rel=0.2)
    assert shown["edges"] != 1_000
    assert "About" in shards_of("show", "ada", "--estimate").stdout


def test_show_tells_the_history_and_the_shards_as_tables(
    clock: Clock, publishers: PublishersTable, edges_table: EdgesTable
) -> None:
    edges_table.put("ada", "bob", version=1, level=0)
    publishers.count("ada", 3_000 * WINDOW_SECONDS, now_ms=AT_MS - WINDOW_SECONDS * 1000)
    assert shards_of("grow", "ada", "--level", "1", "--yes").exit_code == 0
    clock.advance(600)
    assert shards_of("grow", "ada", "--level", "2", "--yes").exit_code == 0
    shown = shards_of("show", "ada").stdout
    assert f"'ada' is at level 2: 4 write shards, grown last at {times.to_text(clock.ms)}" in shown
    first, second = (line.split() for line in shown.splitlines() if "T18:" in line and "│" in line)
    rate = int(first[5].replace(",", ""))
    assert first[1:4] == ["1", "│", AT]
    assert 2_000 < rate <= 3_000, "most of the window before is within the last one's time"
    assert second[1:6:2] == ["2", times.to_text(clock.ms), "0"]
    assert [line.split()[1] for line in shown.splitlines() if "│ " in line][-7:] == (
        ["0.0", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3"]
    )
    assert shown.endswith("1 edges.\n")


def test_show_of_too_many_shards_to_list_points_to_json(publishers: PublishersTable) -> None:
    raise_to(publishers, 5)
    shown = shards_of("show", "ada")
    assert "--json has them all" in shown.said
    assert "5.31" not in shown.stdout
    assert len(shards_of("show", "ada", "--json").json["levels"][5]["shards"]) == 32


@pytest.mark.usefixtures("system")
def test_show_of_a_publisher_that_nobody_follows_asks_whether_the_id_is_right() -> None:
    shown = shards_of("show", "ada")
    assert shown.exit_code == 0
    assert "'ada' is at level 0: 1 write shard, never grown" in shown.stdout
    assert "is the id right?" in shown.said


def test_show_says_at_which_level_all_are_kept(publishers: PublishersTable) -> None:
    publishers.set_static_level(3)
    assert "All publishers are kept at level 3" in shards_of("show", "ada").stdout
    assert shards_of("show", "ada", "--json").json["static_level"] == 3


def test_a_count_that_is_interrupted_ends_at_the_next_page(publishers: PublishersTable) -> None:
    raise_to(publishers, 3)
    counted: list[str] = []

    class Endless:
        def __getattr__(self, name: str) -> Any:
            return getattr(publishers.client, name)

        def query(self, **request: Any) -> Any:
            shard = request["ExpressionAttributeValues"][":shard"]["S"]
            counted.append(shard)
            assert len(counted) < 5_000, "it counts on"
            if shard == "ada#0.0":
                raise KeyboardInterrupt
            time.sleep(0.001)
            return {"Count": 1, "LastEvaluatedKey": {"edge": {"S": "0"}}}

    ran = shards_of("show", "ada", dynamodb=Endless())
    assert (ran.exit_code, ran.stdout) == (130, "")


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    "command",
    [
        ["shards", "show", "ada"],
        ["shards", "grow", "ada", "--level", "1", "--yes"],
        ["shards", "static", "--level", "1", "--yes"],
        ["shards", "dynamic", "--yes"],
        ["doctor", "--whole"],
        ["doctor", "--whole", "--repair"],
    ],
    ids=" ".join,
)
def test_a_stack_of_a_version_without_write_shards_is_a_sentence(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = outputs()
    del older[names.PUBLISHERS.output]
    monkeypatch.setattr("tests.integration.cli.outputs", lambda: older)
    ran = run(*command, lambda_=FakeLambda())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"no output {names.PUBLISHERS.output}" in ran.said
    assert "deploy it again." in ran.said


def test_functions_of_a_version_without_write_shards_are_a_sentence(
    publishers: PublishersTable,
) -> None:
    functions = FakeLambda()
    del functions.variables["PUBLISHERS_TABLE"]
    ran = run("shards", "grow", "ada", "--level", "1", "--yes", lambda_=functions)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "lacks PUBLISHERS_TABLE" in ran.said
    assert "Deploy the stack again." in ran.said
    assert publishers.shards("ada") == Shards()


@pytest.mark.usefixtures("system")
def test_a_table_that_cannot_be_read_is_a_sentence() -> None:
    class Closed:
        def __getattr__(self, name: str) -> Any:
            def refuse(**_request: Any) -> Any:
                raise error("AccessDeniedException")

            return refuse

    ran = shards_of("show", "ada", dynamodb=Closed())
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "cannot be read" in ran.said


# grow


def test_grow_raises_the_level_and_says_what_it_means(publishers: PublishersTable) -> None:
    ran = shards_of("grow", "ada", "--level", "3", "--yes")
    assert ran.exit_code == 0
    assert "8,000 follows a second" in ran.said
    assert "reads 15 shards instead of 1" in ran.said
    assert "within 60 s, or at its first throttle" in ran.said
    assert "'ada' is at level 3 now: 8 write shards." in ran.stdout
    grown = publishers.shards("ada")
    assert (grown.level, grown.version, grown.last_updated) == (3, 1, AT_MS)
    assert [growth.level for growth in grown.history] == [3]


def test_a_follower_from_before_a_growth_is_reached_and_a_new_one_is_at_the_new_level(
    system: System, publishers: PublishersTable, edges_table: EdgesTable
) -> None:
    edges = Edges(edges_table, Growing(Levels(publishers), 8, 10_000))
    edges.put("ada", "early", version=1)
    shards_of("grow", "ada", "--level", "2", "--yes")
    Edges(edges_table, Growing(Levels(publishers), 8, 10_000)).put("ada", "late", version=1)
    levels = shards_of("show", "ada", "--json").json["levels"]
    assert [level["edges"] for level in levels] == [1, 0, 1]
    system.publish()
    system.pump("Publish", "Express")
    assert system.reached() == ["early", "late"]


def test_grow_asks_first_and_changes_nothing_when_told_no(
    publishers: PublishersTable, asked: list[str]
) -> None:
    ran = shards_of("grow", "ada", "--level", "3")
    assert asked == ["Grow 'ada' from level 0 to level 3?"]
    assert (ran.exit_code, ran.stdout, ran.said) == (1, "", "Nothing was changed.")
    assert publishers.shards("ada") == Shards()


def test_grow_without_anybody_to_ask_says_how_to_answer(publishers: PublishersTable) -> None:
    ran = shards_of("grow", "ada", "--level", "3")  # its standard input is at its end
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "--yes answers" in ran.said
    assert publishers.shards("ada") == Shards()


def test_grow_with_its_standard_input_closed_says_how_to_answer(
    publishers: PublishersTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_args: Any, **_options: Any) -> bool:
        raise RuntimeError("input(): lost sys.stdin")  # as Python says it

    monkeypatch.setattr("fanfold_cli.commands.shards.typer.confirm", closed)
    ran = shards_of("grow", "ada", "--level", "3")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "--yes answers" in ran.said
    assert publishers.shards("ada") == Shards()


def test_grow_never_lowers_and_can_be_repeated(
    publishers: PublishersTable, asked: list[str]
) -> None:
    raise_to(publishers, 3)
    lower = shards_of("grow", "ada", "--level", "2")
    assert (lower.exit_code, lower.stdout) == (1, "")
    assert "is at level 3, and a level is never lowered" in lower.said
    same = shards_of("grow", "ada", "--level", "3")
    assert (same.exit_code, same.stdout) == (0, "'ada' is at level 3 already: 8 write shards.\n")
    told = shards_of("grow", "ada", "--level", "3", "--json").json
    assert (told["was"], told["level"], told["changed"]) == (3, 3, False)
    assert publishers.shards("ada").version == 1
    assert asked == []


NOBODY = "Nobody follows 'ada' yet; is the id right?"


@pytest.mark.parametrize("options", [["--yes"], ["--yes", "--json"]], ids=" ".join)
def test_grow_of_a_publisher_that_nobody_follows_says_so_and_goes_on(
    publishers: PublishersTable, options: list[str]
) -> None:
    ran = shards_of("grow", "ada", "--level", "1", *options)
    assert NOBODY in ran.said
    assert (ran.exit_code, publishers.shards("ada").level) == (0, 1)
    again = shards_of("grow", "ada", "--level", "2", *options)
    assert NOBODY not in again.said, "it was said already"


def test_grow_of_a_publisher_that_is_followed_does_not_doubt_its_id(
    edges_table: EdgesTable,
) -> None:
    edges_table.put("ada", "bob", version=1, level=0)
    assert NOBODY not in shards_of("grow", "ada", "--level", "1", "--yes").said


def test_grow_doubts_the_id_before_it_asks(
    publishers: PublishersTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        told.append(question)
        return err

    monkeypatch.setattr("fanfold_cli.commands.shards.say", told.append)
    monkeypatch.setattr("fanfold_cli.commands.shards.typer.confirm", confirm)
    assert shards_of("grow", "ada", "--level", "1").exit_code == 0
    assert told.index(NOBODY) < told.index("Grow 'ada' from level 0 to level 1?")
    assert publishers.shards("ada").level == 1


def test_grow_stops_at_what_the_stage_allows(publishers: PublishersTable) -> None:
    refused = shards_of("grow", "ada", "--level", "5", "--yes", max_level=4)
    assert refused.exit_code == 1
    assert "above the highest of this stage, 4" in refused.said
    assert "a higher -c max_level=" in refused.said
    assert publishers.shards("ada") == Shards()
    assert shards_of("grow", "ada", "--level", "4", "--yes", max_level=4).exit_code == 0


class Racing:
    """The client of somebody whose publisher grows by itself just before each update."""

    def __init__(self, publishers: PublishersTable, races: int) -> None:
        self.publishers, self.races = publishers, races

    def __getattr__(self, name: str) -> Any:
        return getattr(self.publishers.client, name)

    def update_item(self, **request: Any) -> Any:
        if self.races:
            self.races -= 1
            raise_to(self.publishers, self.publishers.shards("ada").level + 1)
        return self.publishers.client.update_item(**request)


def test_grow_goes_on_from_a_growth_that_came_between(publishers: PublishersTable) -> None:
    ran = shards_of("grow", "ada", "--level", "3", "--yes", dynamodb=Racing(publishers, 2))
    assert ran.exit_code == 0
    grown = publishers.shards("ada")
    assert (grown.level, grown.version) == (3, 3)


def test_grow_is_content_with_a_publisher_that_grew_beyond_meanwhile(
    publishers: PublishersTable,
) -> None:
    racing = Racing(publishers, 2)
    ran = shards_of("grow", "ada", "--level", "1", "--yes", dynamodb=racing)
    assert "at level 1 now" in ran.stdout
    assert publishers.shards("ada").level == 1


def test_grow_gives_up_on_a_publisher_that_changes_all_the_while(
    publishers: PublishersTable,
) -> None:
    racing = Racing(publishers, 100)
    ran = shards_of("grow", "ada", "--level", "8", "--yes", dynamodb=racing)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "changed too often" in ran.said


def test_grow_in_static_mode_says_where_followers_go(publishers: PublishersTable) -> None:
    publishers.set_static_level(1)
    ran = shards_of("grow", "ada", "--level", "3", "--yes")
    assert "kept at level 1" in ran.said
    assert "within 60 s" not in ran.said


# static and dynamic


def test_static_keeps_all_publishers_at_a_level_until_dynamic(
    publishers: PublishersTable, edges_table: EdgesTable
) -> None:
    kept = shards_of("static", "--level", "2", "--yes")
    assert (kept.exit_code, kept.stdout) == (0, "The mode is static: all publishers at level 2.\n")
    assert "within 60 s" in kept.said
    Edges(edges_table, Growing(Levels(publishers), 8, 10_000)).put("ada", "bob", version=1)
    assert followers_at(edges_table, "bob") == [2]
    assert publishers.shards("ada").level == 2, "committed before anything is written there"
    again = shards_of("static", "--level", "2")
    assert "was so already" in again.stdout
    assert shards_of("dynamic", "--yes", "--json").json == (
        {"static_level": None, "was": 2, "changed": True}
    )
    assert publishers.static_level() is None
    assert "was so already" in shards_of("dynamic").stdout


@pytest.mark.usefixtures("publishers")
@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("0", "at level 0 or higher for good, and each of its deliveries reads 1 shard or more"),
        ("2", "at level 2 or higher for good, and each of its deliveries reads 7 shards or more"),
    ],
)
def test_static_says_what_it_costs_a_publisher_that_may_be_higher(level: str, said: str) -> None:
    assert said in shards_of("static", "--level", level, "--yes").said


def test_a_lowered_static_level_loses_no_follower(
    system: System, publishers: PublishersTable, edges_table: EdgesTable
) -> None:
    for level, user in ((3, "early"), (1, "late")):
        shards_of("static", "--level", str(level), "--yes")
        Edges(edges_table, Growing(Levels(publishers), 8, 10_000)).put("ada", user, version=1)
        assert followers_at(edges_table, user) == [level]
    system.publish()
    system.pump("Publish", "Express")
    assert system.reached() == ["early", "late"]
    Edges(edges_table, Growing(Levels(publishers), 8, 10_000)).remove("ada", "early", version=2)
    assert followers_at(edges_table, "early") == []


def test_static_and_dynamic_ask_first(publishers: PublishersTable, asked: list[str]) -> None:
    ran = shards_of("static", "--level", "2")
    assert (ran.exit_code, ran.stdout, ran.said) == (1, "", "Nothing was changed.")
    assert publishers.static_level() is None
    publishers.set_static_level(4)
    assert shards_of("dynamic").exit_code == 1
    assert publishers.static_level() == 4
    assert asked == ["Keep all at level 2?", "Go back to dynamic levels?"]


def test_static_stops_at_what_the_stage_allows(publishers: PublishersTable) -> None:
    refused = shards_of("static", "--level", "5", "--yes", max_level=4)
    assert "above the highest of this stage" in refused.said
    assert publishers.static_level() is None


def followers_at(edges_table: EdgesTable, user: str) -> list[int]:
    """The levels at which the user's edge to ada is."""
    items = edges_table.client.scan(TableName=edges_table.table)["Items"]
    return sorted(
        int(item["shard_id"]["S"].partition("#")[2].partition(".")[0])
        for item in items
        if item["edge"]["S"].endswith(f"#{user}")
    )


# seed


@pytest.fixture
def graph(tmp_path: Path) -> Callable[[int], str]:
    def write(count: int) -> str:
        path = tmp_path / "follows.csv"
        lines = [f"ada,user-{number}" for number in range(count)]
        path.write_text("\n".join(["publisher,follower", *lines]))
        return str(path)

    return write


def hot_key_range(operation: str) -> ClientError:
    """A throttle of a partition, as botocore tells it."""
    response: Any = {
        "Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"},
        "ThrottlingReasons": [{"reason": HOT_KEY_RANGE, "resource": "the table"}],
    }
    return ClientError(response, operation)


class HotTable:
    """moto's DynamoDB, whose partition of `ada` takes nothing while it is one shard."""

    def __init__(self, client: Any, clock: Clock) -> None:
        self.client, self.clock = client, clock
        self.throttles = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def batch_write_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
        (table, requests), *_ = RequestItems.items()
        if self._is_hot(requests[0]["PutRequest"]["Item"]["shard_id"]["S"]):
            return {"UnprocessedItems": {table: requests}}
        return self.client.batch_write_item(RequestItems=RequestItems)

    def put_item(self, **request: Any) -> Any:
        if self._is_hot(request["Item"].get("shard_id", {}).get("S", "")):
            raise hot_key_range("PutItem")
        return self.client.put_item(**request)

    def _is_hot(self, shard_id: str) -> bool:
        if shard_id != "ada#0.0":
            return False
        self.throttles += 1
        self.clock.advance(1)
        # What other writers were told is accepted, so that this publisher's own follows justify it.
        PublishersTable(self.client, settings().publishers_table).count(
            "ada", 1_000, now_ms=self.clock.ms
        )
        return True


@pytest.mark.usefixtures("system")
def test_an_import_lets_its_publisher_grow_and_tells_it(
    clock: Clock, publishers: PublishersTable, graph: Callable[[int], str]
) -> None:
    hot = HotTable(aws.client("dynamodb", None, REGION), clock)
    with patch("fanfold_cli.seeding.THREADS", 1):
        ran = run("seed", "--edges", graph(30), "--json", dynamodb=hot, lambda_=FakeLambda())
    assert ran.exit_code == 0
    assert ran.json == {"follows": 30, "new": 30}
    assert publishers.shards("ada").level == 1
    told = [line for line in ran.said.splitlines() if "write shards now" in line]
    assert len(told) == 1
    assert "'ada' has 2 write shards now, after" in told[0]


@pytest.mark.usefixtures("system")
def test_an_import_grows_no_further_than_the_stage_allows(
    clock: Clock, publishers: PublishersTable, graph: Callable[[int], str]
) -> None:
    hot, began = HotTable(aws.client("dynamodb", None, REGION), clock), product_clock.monotonic()
    told = FakeLambda(max_level=0)
    ran = run("seed", "--edges", graph(1), dynamodb=hot, lambda_=told)
    assert ran.exit_code == 1
    assert product_clock.monotonic() - began > seeding.PATIENCE_SECONDS
    assert "too slowly" in ran.said
    assert "Follows that were loaded stay" in ran.said
    assert publishers.shards("ada").level == 0


@pytest.mark.usefixtures("system")
def test_the_edges_of_an_import_see_each_throttle_and_others_are_tried_again() -> None:
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


class Raw:
    """A body as botocore reads one."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self) -> Iterator[bytes]:
        yield self.body


@pytest.mark.parametrize("way", ["put", "ensure"])
def test_the_edges_of_an_import_wait_for_the_table(system: System, clock: Clock, way: str) -> None:
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


def test_an_import_that_is_repeated_after_a_growth_leaves_no_second_edges(
    system: System, graph: Callable[[int], str]
) -> None:
    publishers = PublishersTable(system.dynamodb, system.settings.publishers_table)
    for level in range(3):
        publishers.raise_to("ada", level, now_ms=AT_MS)
        with patch("fanfold_cli.seeding.THREADS", 1):  # moto's transactions undo what others do
            ran = run("seed", "--edges", graph(5), "--json", lambda_=FakeLambda())
        assert ran.exit_code == 0
        assert system.edges() == [f"user-{number}" for number in range(5)]


def test_an_import_outlives_a_lost_connection(
    system: System,
    graph: Callable[[int], str],
    fail_first: Callable[..., list[Any]],
) -> None:
    lost = ConnectTimeoutError(endpoint_url="https://dynamodb")
    client = aws.client("dynamodb", None, REGION)
    calls = fail_first(client, "batch_write_item", [lost])
    with patch.object(product_clock, "sleep"):
        ran = run("seed", "--edges", graph(2), "--json", dynamodb=client, lambda_=FakeLambda())
    assert ran.json["new"] == 2
    assert len(calls) == 2, "one for each user"
    assert system.edges() == ["user-0", "user-1"]
