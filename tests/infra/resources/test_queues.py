"""Rules for every queue and what consumes it."""

from fanfold import names
from fanfold.budgets import Budget
from tests.infra.template import Template, of_type, output_id, resources, setting

QUEUE, MAPPING = "AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping"


def mappings(template: Template) -> dict[names.Queue, tuple[str, Template]]:
    """The logical id and the properties of what takes the messages of each queue."""
    found = {
        mapping["EventSourceArn"]["Fn::GetAtt"][0]: (id_, mapping)
        for id_, mapping in of_type(template, MAPPING).items()
    }
    assert len(found) == len(names.QUEUES)
    return {queue: found[output_id(template, queue.url_output)] for queue in names.QUEUES}


def consumers(template: Template) -> dict[names.Queue, Template]:
    """The function that takes the messages of each queue."""
    return {
        queue: template["Resources"][mapping["FunctionName"]["Ref"]]["Properties"]
        for queue, (_, mapping) in mappings(template).items()
    }


def workers(template: Template) -> dict[str, int]:
    """How many at most take messages of each queue."""
    return {
        queue.name: mapping["ScalingConfig"]["MaximumConcurrency"]
        for queue, (_, mapping) in mappings(template).items()
    }


def test_receives_and_visibility_are_those_that_the_functions_assume(template: Template) -> None:
    found, takers, receives = of_type(template, QUEUE), consumers(template), {}
    for queue in names.QUEUES:
        properties = found[output_id(template, queue.url_output)]
        receives[queue.name] = properties["RedrivePolicy"]["maxReceiveCount"]
        assert receives[queue.name] == queue.max_receives
        hidden = properties["VisibilityTimeout"]
        assert hidden == queue.visibility_seconds == 6 * takers[queue]["Timeout"]
    assert receives == {"Publish": 5, "Relation": 30, "Express": 10, "Bulk": 10}


def test_lanes_have_the_workers_and_rates_of_the_stages_budget(
    dev: Template, prod: Template
) -> None:
    # prod's fuse is 30,000 write units a second. dev has AWS's default, 40,000, and fits an account
    # with 10 executions, of which some are left for requests and SWEEP.
    budgets = Budget.of(40_000, concurrency=10), Budget.of(30_000)
    for template, budget in zip((dev, prod), budgets, strict=True):
        assert workers(template) == {
            "Publish": budget.publish.max_concurrency,
            "Express": budget.express.max_concurrency,
            "Bulk": budget.bulk.max_concurrency,
            "Relation": budget.relation.max_concurrency,
        }
        assert setting(template, "EXPRESS_WORKER_RATE") == str(budget.express.worker_rate)
        assert setting(template, "BULK_WORKER_RATE") == str(budget.bulk.worker_rate)
    assert set(workers(dev).values()) == {2}


def test_queues_and_the_topic_require_tls(template: Template) -> None:
    refused = set()
    for kind, reached in (("AWS::SQS::QueuePolicy", "Queues"), ("AWS::SNS::TopicPolicy", "Topics")):
        for policy in of_type(template, kind).values():
            statements = policy["PolicyDocument"]["Statement"]
            if any(
                statement["Effect"] == "Deny"
                and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
                and statement["Principal"] in ("*", {"AWS": "*"})
                for statement in statements
            ):
                refused |= {target["Ref"] for target in policy[reached]}
    expected = resources(template, QUEUE) | resources(template, "AWS::SNS::Topic")
    assert refused == set(expected)
