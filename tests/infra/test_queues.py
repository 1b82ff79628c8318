"""Rules for every queue and what consumes it."""

from collections.abc import Callable

from fanfold import names
from fanfold.budgets import Budget
from tests.infra.template import Template, of_type, output_id, resources, variables

TWO_WEEKS = 14 * 24 * 60 * 60
MAPPING = "AWS::Lambda::EventSourceMapping"


def work_queues(template: Template) -> dict[str, str]:
    return {
        output_id(template, queue.url_output): output_id(template, queue.dlq_url_output)
        for queue in names.QUEUES
    }


def mappings(template: Template) -> dict[str, Template]:
    """Each event source mapping by the logical id of its queue."""
    return {
        mapping["EventSourceArn"]["Fn::GetAtt"][0]: mapping
        for mapping in of_type(template, MAPPING).values()
    }


def consumer(template: Template, mapping: Template) -> Template:
    properties: Template = template["Resources"][mapping["FunctionName"]["Ref"]]["Properties"]
    return properties


def test_every_queue_has_its_own_dead_letter_queue(template: Template) -> None:
    queues = of_type(template, "AWS::SQS::Queue")
    pairs = work_queues(template)
    assert len(set(pairs.values())) == len(pairs)
    assert set(pairs) | set(pairs.values()) == set(queues)
    for queue, dead_letters in pairs.items():
        redrive = queues[queue]["RedrivePolicy"]
        assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": [dead_letters, "Arn"]}
        assert "RedrivePolicy" not in queues[dead_letters]


def test_messages_are_kept_for_two_weeks(template: Template) -> None:
    for queue in of_type(template, "AWS::SQS::Queue").values():
        assert queue["MessageRetentionPeriod"] == TWO_WEEKS


def test_receives_and_visibility_are_those_that_the_functions_assume(template: Template) -> None:
    queues, found = of_type(template, "AWS::SQS::Queue"), mappings(template)
    receives = {}
    for queue in names.QUEUES:
        id_ = output_id(template, queue.url_output)
        receives[queue.name] = queues[id_]["RedrivePolicy"]["maxReceiveCount"]
        assert receives[queue.name] == queue.max_receives
        hidden = queues[id_]["VisibilityTimeout"]
        assert hidden == queue.visibility_seconds == 6 * consumer(template, found[id_])["Timeout"]
    assert receives == {"Publish": 5, "Relation": 30, "Express": 10, "Bulk": 10}


def test_only_sweep_knows_the_event_source_mappings_of_its_queues(template: Template) -> None:
    ids = {
        mapping["EventSourceArn"]["Fn::GetAtt"][0]: {"Ref": id_}
        for id_, mapping in of_type(template, MAPPING).items()
    }
    for module, given in variables(template).items():
        for queue in (names.PUBLISH, names.EXPRESS, names.BULK):
            known = ids[output_id(template, queue.url_output)] if module == "sweep" else ""
            assert given[queue.mapping_setting.upper()] == known


def test_every_queue_has_its_consumer(template: Template) -> None:
    handlers = {
        queue: consumer(template, mapping)["Handler"]
        for queue, mapping in mappings(template).items()
    }
    assert handlers == {
        output_id(template, names.PUBLISH.url_output): "functions.plan.handler",
        output_id(template, names.EXPRESS.url_output): "functions.deliver.handler",
        output_id(template, names.BULK.url_output): "functions.deliver.handler",
        output_id(template, names.RELATION.url_output): "functions.relate.handler",
    }


def test_only_failed_messages_of_a_batch_are_redelivered(template: Template) -> None:
    for mapping in mappings(template).values():
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_batch_is_ten_messages_or_one_segment(template: Template) -> None:
    found = mappings(template)
    assert {
        queue.name: found[output_id(template, queue.url_output)]["BatchSize"]
        for queue in names.QUEUES
    } == {"Publish": 10, "Express": 1, "Bulk": 1, "Relation": 10}


def test_the_workers_of_every_queue_are_limited(template: Template) -> None:
    for mapping in mappings(template).values():
        assert 2 <= mapping["ScalingConfig"]["MaximumConcurrency"] <= 1000


def test_a_new_account_has_executions_left_for_requests_and_sweep(dev: Template) -> None:
    most = [each["ScalingConfig"]["MaximumConcurrency"] for each in mappings(dev).values()]
    assert most == [2, 2, 2, 2]


def test_a_stage_may_set_the_workers_of_every_queue(synthesize: Callable[..., Template]) -> None:
    template = synthesize(
        concurrency="100",
        publish_concurrency="3",
        express_concurrency="40",
        bulk_concurrency="8",
        relation_concurrency="2",
    )
    found = mappings(template)
    assert {
        queue.name: found[output_id(template, queue.url_output)]["ScalingConfig"]
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
    # prod's fuse is 30,000 write units a second. dev has AWS's default, 40,000, and fits an account
    # with 10 executions.
    budgets = Budget.of(40_000, concurrency=10), Budget.of(30_000)
    for template, budget in zip((dev, prod), budgets, strict=True):
        found = mappings(template)
        assert {
            queue.name: found[output_id(template, queue.url_output)]["ScalingConfig"]
            for queue in names.QUEUES
        } == {
            "Publish": {"MaximumConcurrency": budget.publish.max_concurrency},
            "Express": {"MaximumConcurrency": budget.express.max_concurrency},
            "Bulk": {"MaximumConcurrency": budget.bulk.max_concurrency},
            "Relation": {"MaximumConcurrency": budget.relation.max_concurrency},
        }
        for given in variables(template).values():
            assert given["EXPRESS_WORKER_RATE"] == str(budget.express.worker_rate)
            assert given["BULK_WORKER_RATE"] == str(budget.bulk.worker_rate)


def test_any_number_of_bulk_workers_keeps_to_85_percent_together(
    synthesize: Callable[..., Template],
) -> None:
    template = synthesize(bulk_concurrency="10", max_write_request_units="10000", concurrency="100")
    bulk = mappings(template)[output_id(template, names.BULK.url_output)]
    assert bulk["ScalingConfig"] == {"MaximumConcurrency": 10}
    given = consumer(template, bulk)["Environment"]["Variables"]
    assert given["BULK_WORKER_RATE"] == "850"


def test_queues_and_the_topic_require_tls(template: Template) -> None:
    refused = set()
    for kind, reached in (
        ("AWS::SQS::QueuePolicy", "Queues"),
        ("AWS::SNS::TopicPolicy", "Topics"),
    ):
        for policy in of_type(template, kind).values():
            statements = policy["PolicyDocument"]["Statement"]
            if any(
                statement["Effect"] == "Deny"
                and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
                and statement["Principal"] in ("*", {"AWS": "*"})
                for statement in statements
            ):
                refused |= {target["Ref"] for target in policy[reached]}
    expected = resources(template, "AWS::SQS::Queue") | resources(template, "AWS::SNS::Topic")
    assert refused == set(expected)
