"""Rules for every queue and what consumes it."""

from collections.abc import Callable
from typing import Any

from fanfold import names
from fanfold.budgets import Budget

Template = dict[str, Any]

TWO_WEEKS = 14 * 24 * 60 * 60
MAPPING = "AWS::Lambda::EventSourceMapping"


def resources(template: Template, kind: str) -> dict[str, Template]:
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def logical_id(template: Template, output: str) -> str:
    return str(template["Outputs"][output]["Value"]["Ref"])


def work_queues(template: Template) -> dict[str, str]:
    return {
        logical_id(template, queue.url_output): logical_id(template, queue.dlq_url_output)
        for queue in names.QUEUES
    }


def mappings(template: Template) -> dict[str, Template]:
    """Each event source mapping by the logical id of its queue."""
    return {
        mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]: mapping["Properties"]
        for mapping in resources(template, MAPPING).values()
    }


def consumer(template: Template, mapping: Template) -> Template:
    properties: Template = template["Resources"][mapping["FunctionName"]["Ref"]]["Properties"]
    return properties


def test_every_queue_has_its_own_dead_letter_queue(template: Template) -> None:
    queues = resources(template, "AWS::SQS::Queue")
    pairs = work_queues(template)
    assert len(set(pairs.values())) == len(pairs)
    assert set(pairs) | set(pairs.values()) == set(queues)
    for queue, dead_letters in pairs.items():
        redrive = queues[queue]["Properties"]["RedrivePolicy"]
        assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": [dead_letters, "Arn"]}
        assert "RedrivePolicy" not in queues[dead_letters]["Properties"]


def test_a_message_is_received_at_most_five_times_and_in_a_lane_ten(template: Template) -> None:
    queues = resources(template, "AWS::SQS::Queue")
    for queue, times in (
        (names.PUBLISH, 5),
        (names.RELATION, 5),
        (names.EXPRESS, 10),
        (names.BULK, 10),
    ):
        properties = queues[logical_id(template, queue.url_output)]["Properties"]
        assert properties["RedrivePolicy"]["maxReceiveCount"] == times >= 5


def test_messages_are_kept_for_two_weeks(template: Template) -> None:
    for queue in resources(template, "AWS::SQS::Queue").values():
        assert queue["Properties"]["MessageRetentionPeriod"] == TWO_WEEKS


def test_the_visibility_timeout_is_six_times_the_consumers_timeout(template: Template) -> None:
    for queue, mapping in mappings(template).items():
        hidden = template["Resources"][queue]["Properties"]["VisibilityTimeout"]
        assert hidden >= 6 * consumer(template, mapping)["Timeout"]


def test_queues_have_the_receives_and_visibility_that_the_functions_assume(
    template: Template,
) -> None:
    for queue in names.QUEUES:
        properties = template["Resources"][logical_id(template, queue.url_output)]["Properties"]
        assert properties["RedrivePolicy"]["maxReceiveCount"] == queue.max_receives
        assert properties["VisibilityTimeout"] == queue.visibility_seconds


def test_only_sweep_knows_the_event_source_mappings_of_its_queues(template: Template) -> None:
    fed = {
        mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]: {"Ref": id_}
        for id_, mapping in resources(template, MAPPING).items()
    }
    for function in resources(template, "AWS::Lambda::Function").values():
        told = function["Properties"]["Environment"]["Variables"]
        is_sweep = function["Properties"]["Handler"] == "functions.sweep.handler"
        for queue in (names.PUBLISH, names.EXPRESS, names.BULK):
            known = fed[logical_id(template, queue.url_output)] if is_sweep else ""
            assert told[queue.mapping_setting.upper()] == known


def test_every_queue_has_its_consumer(template: Template) -> None:
    handlers = {
        queue: consumer(template, mapping)["Handler"]
        for queue, mapping in mappings(template).items()
    }
    assert handlers == {
        logical_id(template, names.PUBLISH.url_output): "functions.plan.handler",
        logical_id(template, names.EXPRESS.url_output): "functions.deliver.handler",
        logical_id(template, names.BULK.url_output): "functions.deliver.handler",
        logical_id(template, names.RELATION.url_output): "functions.relate.handler",
    }


def test_only_failed_messages_of_a_batch_are_redelivered(template: Template) -> None:
    for mapping in mappings(template).values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_batch_is_ten_messages_or_one_segment(template: Template) -> None:
    found = mappings(template)
    assert {
        queue.name: found[logical_id(template, queue.url_output)]["BatchSize"]
        for queue in names.QUEUES
    } == {"Publish": 10, "Express": 1, "Bulk": 1, "Relation": 10}


def test_the_workers_of_every_queue_are_limited(template: Template) -> None:
    for mapping in mappings(template).values():
        assert 2 <= mapping["ScalingConfig"]["MaximumConcurrency"] <= 1000


def test_a_stage_may_set_the_workers_of_every_queue(synthesize: Callable[..., Template]) -> None:
    template = synthesize(
        publish_concurrency="3",
        express_concurrency="40",
        bulk_concurrency="8",
        relation_concurrency="2",
    )
    found = mappings(template)
    assert {
        queue.name: found[logical_id(template, queue.url_output)]["ScalingConfig"]
        for queue in names.QUEUES
    } == {
        "Publish": {"MaximumConcurrency": 3},
        "Express": {"MaximumConcurrency": 40},
        "Bulk": {"MaximumConcurrency": 8},
        "Relation": {"MaximumConcurrency": 2},
    }


def test_lanes_have_the_workers_and_rates_of_the_stages_budget(
    dev: Template, prod: Template
) -> None:
    # prod's fuse is 30,000 write units a second; dev has AWS's default, 40,000.
    for template, units in ((dev, 40_000), (prod, 30_000)):
        budget = Budget.of(units)
        found = mappings(template)
        assert {
            queue.name: found[logical_id(template, queue.url_output)]["ScalingConfig"]
            for queue in names.QUEUES
        } == {
            "Publish": {"MaximumConcurrency": 10},
            "Express": {"MaximumConcurrency": budget.express.max_concurrency},
            "Bulk": {"MaximumConcurrency": budget.bulk.max_concurrency},
            "Relation": {"MaximumConcurrency": budget.relation.max_concurrency},
        }
        for function in resources(template, "AWS::Lambda::Function").values():
            told = function["Properties"]["Environment"]["Variables"]
            assert told["EXPRESS_WORKER_RATE"] == str(budget.express.worker_rate)
            assert told["BULK_WORKER_RATE"] == str(budget.bulk.worker_rate)


def test_any_number_of_bulk_workers_keeps_to_85_percent_together(
    synthesize: Callable[..., Template],
) -> None:
    template = synthesize(bulk_concurrency="10", max_write_request_units="10000")
    bulk = mappings(template)[logical_id(template, names.BULK.url_output)]
    assert bulk["ScalingConfig"] == {"MaximumConcurrency": 10}
    told = consumer(template, bulk)["Environment"]["Variables"]
    assert told["BULK_WORKER_RATE"] == "850"


def test_queues_and_the_topic_require_tls(template: Template) -> None:
    refused = set()
    for kind, reached in (
        ("AWS::SQS::QueuePolicy", "Queues"),
        ("AWS::SNS::TopicPolicy", "Topics"),
    ):
        for policy in resources(template, kind).values():
            statements = policy["Properties"]["PolicyDocument"]["Statement"]
            if any(
                statement["Effect"] == "Deny"
                and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
                and statement["Principal"] in ("*", {"AWS": "*"})
                for statement in statements
            ):
                refused |= {target["Ref"] for target in policy["Properties"][reached]}
    expected = resources(template, "AWS::SQS::Queue") | resources(template, "AWS::SNS::Topic")
    assert refused == set(expected)


def test_prod_retains_the_queues(prod: Template) -> None:
    for queue in resources(prod, "AWS::SQS::Queue").values():
        assert queue["DeletionPolicy"] == queue["UpdateReplacePolicy"] == "Retain"
