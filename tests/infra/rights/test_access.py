"""Rights that no function may have, whatever it calls; test_rights.py judges them by its calls."""

from fanfold import names
from tests.infra.foreign import as_list
from tests.infra.template import Template, of_type, only, output_id

POLICY = "AWS::IAM::Policy"


def stated(template: Template, kind: str) -> list[Template]:
    """The statements of all policies of a type."""
    policies = of_type(template, kind).values()
    return [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]


def test_all_stages_grant_the_same_rights(dev: Template, prod: Template) -> None:
    assert of_type(dev, POLICY) == of_type(prod, POLICY)


def test_no_function_may_delete_anything_but_edges_and_places_in_lists(template: Template) -> None:
    edges, follows = (
        {"Fn::GetAtt": [output_id(template, table.output), "Arn"]}
        for table in (names.FOLLOWERS, names.FOLLOWING)
    )
    requests, lists = ["*#requests"], ["*#requests", "*#blocks"]
    deleting = [
        each
        for each in stated(template, POLICY)
        if each["Effect"] == "Allow" and "dynamodb:DeleteItem" in as_list(each["Action"])
    ]
    places = [each for each in deleting if as_list(each["Resource"]) == [follows]]
    keys = [each["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] for each in places]
    assert sorted(keys) == [requests, lists, lists], "RELATE alone deletes no place in blocks"
    assert all(each in places or as_list(each["Resource"]) == [edges] for each in deleting)


def test_no_role_has_a_wildcard_or_a_managed_policy(template: Template) -> None:
    for role in of_type(template, "AWS::IAM::Role").values():
        assert not {"ManagedPolicyArns", "Policies"} & set(role)
    for statement in stated(template, POLICY):
        assert not [action for action in as_list(statement["Action"]) if "*" in action]
        assert "*" not in str(statement["Resource"])


def test_resource_policies_use_wildcards_only_to_deny(template: Template) -> None:
    for kind in ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
        for statement in stated(template, kind):
            if "*" in str([statement["Action"], statement["Principal"]]):
                assert statement["Effect"] == "Deny"


def test_only_alarms_of_this_account_may_publish_to_the_topic(template: Template) -> None:
    policy = only(template, "AWS::SNS::TopicPolicy")["PolicyDocument"]
    (allowed,) = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
