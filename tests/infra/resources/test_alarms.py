"""Alarms: what they watch, when they ring, whom they tell, and where they are explained."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aws_cdk import Stack

from fanfold import names
from fanfold_cli.cost.month import ALARM_METRICS
from fanfold_cli.cost.prices import DOLLARS_PER_ALARM_METRIC_MONTH
from infra.alarms.alarms import alarm_of
from infra.alarms.service import GROWERS, of_writes
from infra.rights import TABLE_ACTIONS
from infra.settings.stages import DEV
from proof.model.cloudwatch import ALARM, OK, Alarm, Minutes, evaluated
from tests.infra.pinned_alarms import PINNED, alarm_name, as_text, simulated
from tests.infra.template import Template, of_type, output_id, synthesized, template_of, variables

ROOT = Path(__file__).parents[3]
OPERATIONS = ROOT / "docs/operations.md"

HOURS, DAYS = 3600, 24 * 3600
WORKED = ("api", "timeline", "plan", "deliver", "relate")


def alarms(template: Template) -> dict[str, Alarm]:
    """Each alarm by the name that the operations page knows it by."""
    found = of_type(template, "AWS::CloudWatch::Alarm").items()
    return {alarm_name(logical_id): Alarm(properties) for logical_id, properties in found}


def watched(template: Template, alarm: str, *, metric: str) -> list[dict[str, Any]]:
    """The dimensions of the metrics of this name that the alarm watches."""
    return [
        {name: json.loads(value) if value[0] == "{" else value for name, value in found.dimensions}
        for each in alarms(template)[alarm].metrics.values()
        for found in [each.metric]
        if found.name == metric
    ]


# What is watched


def test_a_local_engine_gets_the_alarms_that_it_knows() -> None:
    local = alarms(synthesized(stage="local"))
    assert "BulkFailed" in local
    assert [name for name, alarm in local.items() if alarm.expression] == []


def test_the_growths_of_every_function_that_writes_edges_are_watched(template: Template) -> None:
    writers = {who for who, may in TABLE_ACTIONS[names.FOLLOWERS].items() if "PutItem" in may}
    assert set(GROWERS) == writers
    found = watched(template, "GrowthRefused", metric=names.GROWTHS_REFUSED)
    services = variables(template)
    assert {each["service"] for each in found} == {
        services[writer.name]["POWERTOOLS_SERVICE_NAME"] for writer in writers
    }


def test_the_simulation_judges_by_the_alarms_of_the_default_stage(dev: Template) -> None:
    assert PINNED.read_text(encoding="utf-8") == as_text(simulated(dev)), (
        "To write it anew: python -m tests.infra.pinned_alarms"
    )


# When they ring. The lists have a value a minute.


def test_the_evaluation_follows_the_developer_guide() -> None:
    # "Configuring how CloudWatch alarms treat missing data", its two tables: points, what the
    # alarm becomes if missing points are ignored, breaching and not breaching, M of N.
    keep = "as before"
    rows = [
        ("0-X-X", OK, OK, OK, 3),
        ("0----", OK, OK, OK, 3),
        ("-----", keep, ALARM, OK, 3),
        ("0XX-X", ALARM, ALARM, ALARM, 3),
        ("--X--", keep, ALARM, OK, 3),
        ("0-X-X", ALARM, ALARM, ALARM, 2),
        ("00X0X", ALARM, ALARM, ALARM, 2),
        ("0-X--", OK, ALARM, OK, 2),
        ("----0", OK, ALARM, OK, 2),
        ("---X-", keep, ALARM, OK, 2),
    ]
    for points, ignored, breaching, calm, m in rows:
        real = [{"0": False, "X": True, "-": None}[point] for point in points]
        kinds = {"ignore": ignored, "breaching": breaching, "notBreaching": calm}
        for missing, state in kinds.items():
            found = evaluated(real, m, 3, missing=missing, state=keep)
            assert found == state, f"{points}, {missing}, {m} of 3"


def test_the_first_letter_rings_and_so_does_each_later_one_but_none_that_was_hidden(
    dev: Template,
) -> None:
    first, more = alarms(dev)["BulkFailed"], alarms(dev)["BulkFailedMore"]
    letters = [0] * 20 + [1] * 20
    assert first.rings(values=letters)
    assert not more.rings(letters=letters), "one message for one letter"
    states = list(more.states(letters=[*letters, *[3] * 20, *[4] * 20]))
    assert states[:40].count(ALARM) == 0
    assert ALARM in states[40:50]
    assert states[55] == OK, "so that the next letter is a change"
    assert ALARM in states[60:70]
    assert not more.rings(letters=([7] * 9 + [0]) * 6), "a listing hides letters for a minute"
    assert not more.rings(letters=[7] * 10 + [5, 3] + [0] * 20), "a redrive"


def test_a_late_queue_rings_after_three_minutes(dev: Template) -> None:
    for queue, minutes in (("Publish", 5), ("Express", 5), ("Relation", 30)):
        alarm = alarms(dev)[f"{queue}Late"]
        assert alarm.rings(values=[minutes * 60] * 3), queue
        assert not alarm.rings(values=[minutes * 60] * 2 + [0] * 5)
        assert not alarm.rings(values=[minutes * 60 - 1] * 60)
        assert list(alarm.states(ALARM, values=[None] * 10))[-1] == OK, "an idle queue has no data"


def test_a_message_rings_some_days_before_it_expires(dev: Template) -> None:
    days = {"BulkExpiring": 10, "DeadLettersExpiring": 7, "RelationExpiring": 10}
    for name, limit in days.items():
        assert alarms(dev)[name].rings(values=[limit * DAYS]), name
        assert not alarms(dev)[name].rings(values=[limit * DAYS - 60] * 60), name


def test_an_old_letter_rings_though_sweep_sees_it_once_an_hour(dev: Template) -> None:
    alarm = alarms(dev)["DeadLettersExpiring"]
    states = list(alarm.states(values=[9 * DAYS, *[DAYS] * 59] * 3 + [DAYS] * 10))
    assert states[:175] == [ALARM] * 175
    assert states[-1] == OK, "an hour after it was last seen"
    assert list(alarm.states(values=[9 * DAYS] + [None] * 90))[-1] == ALARM, "nobody has looked"


def lane(
    dev: Template,
    messages: Minutes,
    entries: Minutes,
    *,
    hidden: Minutes = (),
    delayed: Minutes = (),
) -> list[str]:
    """The states of the alarm; `messages` wait, and what is not given is 0, or no data like it."""
    nothing = [None if each is None else 0 for each in messages]
    gauges = {"waiting": messages, "hidden": hidden or nothing, "delayed": delayed or nothing}
    return list(alarms(dev)["BulkStandsStill"].states(entries=entries, **gauges))


def test_a_lane_with_messages_that_writes_nothing_for_a_quarter_of_an_hour_rings(
    dev: Template,
) -> None:
    for nothing in (0, None):  # its workers write nothing, or there are none
        states = lane(dev, [5_000] * 30, [900] * 10 + [nothing] * 20)
        assert states.index(ALARM) == 10 + 15 - 1


def test_a_lane_whose_few_messages_are_taken_at_once_and_fail_rings_too(dev: Template) -> None:
    none, one = [0] * 30, [1] * 30
    # A message of a worker that failed is hidden for six minutes; a rest waits for up to five.
    assert ALARM in lane(dev, none, [None] * 30, hidden=one)
    assert ALARM in lane(dev, none, [0] * 30, delayed=one)
    assert ALARM in lane(dev, none, [0] * 30, hidden=[1, 0] * 15, delayed=[0, 1] * 15)
    assert ALARM not in lane(dev, none, [10] * 30, hidden=one)


def test_a_lane_that_writes_or_has_nothing_to_write_is_calm(dev: Template) -> None:
    assert ALARM not in lane(dev, [5_000] * 60, [10_000] * 60)
    assert ALARM not in lane(dev, [0] * 60, [None] * 60)
    assert ALARM not in lane(dev, [None] * 60, [None] * 60), "an idle queue has no data"
    # Copies that deliver nothing, or a pause, of fourteen minutes.
    assert ALARM not in lane(dev, [300] * 60, ([0] * 14 + [40]) * 4)
    # The data of the newest two minutes is not there yet.
    assert ALARM not in lane(dev, [5_000] * 60, [10_000] * 58 + [None] * 2)


def test_a_lane_that_writes_again_is_calm_again(dev: Template) -> None:
    states = lane(dev, [5_000] * 60, [None] * 30 + [900] * 30)
    assert (states[29], states[-1]) == (ALARM, OK)


def test_an_alarm_of_sweep_rings_and_holds_while_its_runs_fail(dev: Template) -> None:
    limits = {"SmallFanoutsLate": 900, "LargeFanoutsLate": 4 * DAYS, "FanoutsStalled": 1}
    for name, limit in limits.items():
        found = alarms(dev)[name]
        assert not found.rings(values=[0, limit - 1] * 30), name
        assert not found.rings(values=[None] * 30), name
        states = list(found.states(values=[limit] * 5 + [None] * 30 + [0] * 5))
        assert states[4:35] == [ALARM] * 31
        assert states[-1] == OK


def test_an_audit_that_has_found_something_rings_until_one_finds_nothing(dev: Template) -> None:
    states = list(alarms(dev)["AuditMissing"].states(values=[0, 3, *[None] * 30, 0, 0]))
    assert (states[0], states[1], states[31], states[-1]) == (OK, ALARM, ALARM, OK)


def test_an_old_fanout_rings_after_three_reports(dev: Template) -> None:
    for name in ("SmallFanoutsLate", "LargeFanoutsLate"):
        alarm = alarms(dev)[name]
        assert alarm.rings(values=[9 * DAYS] * 3), name
        assert alarm.rings(values=[9 * DAYS, None, 9 * DAYS, 9 * DAYS]), "a late report"
        assert not alarm.rings(values=[9 * DAYS, 9 * DAYS, 0] * 20), name


def test_a_sweep_that_does_not_run_rings_though_nothing_fails(dev: Template) -> None:
    alarm = alarms(dev)["SweepNotRunning"]
    assert alarm.rings(values=[0] * 30 + [None] * 7)
    assert not alarm.rings(values=[0, 0, 50, 90 * DAYS] * 10)
    assert not alarm.rings(values=[0, None, None] * 20), "now and then a run fails"
    assert list(alarm.states(ALARM, values=[0] * 6))[-1] == OK


def test_a_sweep_that_fails_in_three_of_five_minutes_rings(dev: Template) -> None:
    assert alarms(dev)["SweepFailing"].rings(values=[1, 1, 1])
    assert alarms(dev)["SweepFailing"].rings(values=[1, 1, 0, 1, 1, 0])
    assert alarms(dev)["SweepFailing"].rings(values=[1, 0, 1, 0, 1])
    assert not alarms(dev)["SweepFailing"].rings(values=[1, 0, 0, 1, 0, 0, 1])


@pytest.mark.parametrize(
    ("alarm", "all_"),
    [
        ("RequestsFailing", "requests"),
        *((f"{each.title()}FunctionFailing", "runs") for each in WORKED),
    ],
)
def test_failures_ring_when_they_last(dev: Template, alarm: str, all_: str) -> None:
    found = alarms(dev)[alarm]

    def rings(errors: Minutes, requests: Minutes) -> bool:
        return found.rings(**{"errors": errors, all_: requests})

    assert rings([10] * 5, [1_000] * 5)
    assert rings([1, None, None] * 5, [1, None, None] * 5), "a quiet service of which all fails"
    assert not rings([9] * 60, [1_000] * 60)
    assert not rings([None] * 60, [None] * 60)
    # A publisher that grows eight times: 20 s each, and nothing in the quarter of an hour after.
    assert not rings(([500] * 4 + [0] * 11) * 4, [1_000] * 60)
    assert list(found.states(ALARM, **{"errors": [None] * 20, all_: [None] * 20}))[-1] == OK


def test_a_throttled_function_rings_when_it_lasts(dev: Template) -> None:
    for function in names.FUNCTIONS:
        alarm = alarms(dev)[f"{function.name.title()}FunctionThrottled"]
        assert alarm.rings(values=[0, 3, 0] * 5)
        assert not alarm.rings(values=([9] * 4 + [0] * 11) * 4)


@pytest.mark.parametrize(
    ("alarm", "metric", "minutes"),
    [
        ("PostsOutboxIndexThrottled", "writes", 5),
        ("PostsTableThrottled", "writes", 15),
        ("PostsTableThrottled", "reads", 15),
        ("TimelinesTableThrottled", "reads", 15),
        ("GrowthRefused", "plan", 15),
    ],
)
def test_what_is_throttled_for_long_rings_and_is_calm_again_without_data(
    dev: Template, alarm: str, metric: str, minutes: int
) -> None:
    found = alarms(dev)[alarm]

    def states(values: Minutes) -> list[str]:
        silent: dict[str, Minutes] = {name: [None] * len(values) for name in found.metrics}
        return list(found.states(**{**silent, metric: values}))

    late: Minutes = [None, None]  # the newest minutes have no data yet
    assert states([40] * minutes + list(late))[-1] == ALARM
    assert ALARM not in states(([40] * (minutes - 1) + [None] * 10) * 4)
    assert ALARM not in states([None] * 60)
    assert states([40] * minutes + [None] * 30)[-1] == OK


def test_one_broken_invariant_rings(dev: Template) -> None:
    alarm = alarms(dev)["InvariantBroken"]
    assert alarm.rings(values=[None, None, 1, None])
    assert not alarm.rings(values=[None] * 60)


# Whom they tell, and what they say


def test_every_alarm_tells_the_topic_in_sentences_what_it_means_and_what_to_do(
    template: Template,
) -> None:
    (topic,) = of_type(template, "AWS::SNS::Topic")
    page = OPERATIONS.read_text(encoding="utf-8")
    for name, alarm in alarms(template).items():
        assert alarm.properties["AlarmActions"] == [{"Ref": topic}]
        text = alarm.properties["AlarmDescription"]
        assert 80 < len(text) <= 1024, name  # CloudWatch's limit
        assert text.endswith("."), name
        assert re.search(r"`fanfold |docs/operations\.md|\blogs?\b|\bworkers\b", text), name
        assert "fanfold resume" not in text, f"{name} would have an operator undo another's pause"
        is_of_lane = name.startswith(("Publish", "Express", "Bulk", "LargeFanouts"))
        if re.search("Late$|Expiring$|StandsStill$", name) and "DeadLetter" not in name:
            assert ("`fanfold pause --show`" in text) is is_of_lane, name
        for heading in re.findall(r"'([^']+)' in docs", text):
            assert re.search(rf"^###? {heading}$", page, re.MULTILINE), heading


def test_the_operations_page_explains_exactly_these_alarms(template: Template) -> None:
    page = OPERATIONS.read_text(encoding="utf-8")
    table = page.partition("\n## The alarms\n")[2].partition("\n## ")[0]
    there = {*alarms(template), "ChannelsFull"}  # which neither stage has
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    told = re.findall(r"`(…?\w+)`", " ".join(rows))
    matching = [name.replace("…", r"\w+") for name in told]
    explained = [each for name in matching for each in there if re.fullmatch(name, each)]
    assert {name for name in told if "…" not in name} <= there
    assert sorted(explained) == sorted(there)


def test_the_operations_page_says_what_the_alarms_cost(dev: Template) -> None:
    metrics = sum(len(alarm.metrics) for alarm in alarms(dev).values())
    assert metrics <= ALARM_METRICS < metrics + 10
    dollars = ALARM_METRICS * DOLLARS_PER_ALARM_METRIC_MONTH
    told = f"about {ALARM_METRICS} metrics, ${dollars:.0f} a month"
    assert told in OPERATIONS.read_text(encoding="utf-8")


def test_a_budget_rings_once_all_tables_and_indexes_wrote_as_much_in_a_day(
    dev: Template, chosen: Template
) -> None:
    assert "WritesOverBudget" not in alarms(dev)
    budgets = sorted(name for name in alarms(chosen) if name.startswith("WritesOverBudget"))
    metric = "ConsumedWriteCapacityUnits"
    found = [each for name in budgets for each in watched(chosen, name, metric=metric)]
    tables = [{"TableName": {"Ref": output_id(chosen, each.output)}} for each in names.TABLES]
    assert [each for each in found if len(each) == 1] == tables
    indexes = [each["GlobalSecondaryIndexName"] for each in found if len(each) == 2]
    assert indexes == [index.name for table in names.TABLES for index in table.indexes]
    alarm = alarms(chosen)["WritesOverBudget"]
    others = alarms(chosen)["BulkFailed"].properties["AlarmActions"]
    assert alarm.properties["AlarmActions"] == others
    day = 24 * 60
    idle: Minutes = [None] * day

    def rings(**written: Minutes) -> bool:
        return alarm.rings(**{**dict.fromkeys(alarm.metrics, idle), **written})

    assert not rings()
    assert not rings(timelines=[690] * day)
    assert rings(timelines=[695] * day)
    assert rings(timelines=[*[0] * (day - 1), 1_000_000]), "at once, not at the end of the day"
    assert rings(timelines=[400] * day, posts_outbox=[300] * day)


def test_what_one_alarm_cannot_sum_has_a_second_one(stack: Stack) -> None:
    tables: Any = {
        table: SimpleNamespace(table_name=table.name)
        for table in (*names.TABLES, names.Table("Eighth", "user_id"))
    }
    for rule in of_writes(replace(DEV, daily_write_units=1_000_000), tables):
        alarm_of(stack, rule)
    found = of_type(template_of(stack), "AWS::CloudWatch::Alarm").values()
    budgets = [Alarm(properties) for properties in found]
    assert len(budgets) > 1
    assert all(len(each.metrics) <= 10 for each in budgets)
    idle: dict[str, Minutes] = dict.fromkeys(budgets[-1].metrics, [None] * 24 * 60)
    assert budgets[-1].rings(**{**idle, "eighth": [695] * 24 * 60})
    assert not budgets[-1].rings(**{**idle, "eighth": [690] * 24 * 60})
