"""What the local engine cannot do, one test for each gap, on a bare engine.

A test that fails after an upgrade is good news: the gap has closed, and what works around it, or
names it in docs/local-engine.md, can be deleted.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from botocore.exceptions import ClientError

from fanfold_cli import aws
from fanfold_cli.local import engine as engines
from fanfold_cli.local import gaps
from fanfold_cli.local.home import Home
from tests.e2e.clients import eventually, http
from tests.lifetimes import LIFETIME_HOURS

pytestmark = pytest.mark.thorough

Resources = Mapping[str, Mapping[str, Any]]

# What the engine ignores in part. The function prints a metric as an EMF line, as the product does.
RESOURCES: Resources = yaml.safe_load(
    """
Table:
  Type: AWS::DynamoDB::GlobalTable
  Properties:
    BillingMode: PAY_PER_REQUEST
    KeySchema: [{AttributeName: key, KeyType: HASH}]
    AttributeDefinitions: [{AttributeName: key, AttributeType: S}]
    TimeToLiveSpecification: {AttributeName: expires_at, Enabled: true}
    WarmThroughput: {WriteUnitsPerSecond: 5000, ReadUnitsPerSecond: 13000}
    Replicas:
      - Region: REGION
        DeletionProtectionEnabled: true
        PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
        ContributorInsightsSpecification: {Enabled: true}
Protected:
  Type: AWS::DynamoDB::Table
  Properties:
    BillingMode: PAY_PER_REQUEST
    KeySchema: [{AttributeName: key, KeyType: HASH}]
    AttributeDefinitions: [{AttributeName: key, AttributeType: S}]
    DeletionProtectionEnabled: true
Pool:
  Type: AWS::Cognito::UserPool
  Properties: {DeletionProtection: ACTIVE}
Queue:
  Type: AWS::SQS::Queue
Role:
  Type: AWS::IAM::Role
  Properties:
    AssumeRolePolicyDocument:
      Version: "2012-10-17"
      Statement:
        - {Effect: Allow, Principal: {Service: lambda.amazonaws.com}, Action: "sts:AssumeRole"}
Function:
  Type: AWS::Lambda::Function
  Properties:
    Runtime: python3.11
    Handler: index.handler
    Role: {"Fn::GetAtt": [Role, Arn]}
    Code:
      ZipFile: |
        import json
        def handler(event, context):
            metrics = [{'Namespace': 'Gap', 'Dimensions': [[]], 'Metrics': [{'Name': 'Done'}]}]
            print(json.dumps({'_aws': {'Timestamp': 1, 'CloudWatchMetrics': metrics}, 'Done': 1}))
            return {}
    RecursiveLoop: Allow
    ReservedConcurrentExecutions: 3
Api:
  Type: AWS::ApiGatewayV2::Api
  Properties:
    Name: a
    ProtocolType: HTTP
    CorsConfiguration: {AllowOrigins: ["*"], AllowMethods: [GET]}
Integration:
  Type: AWS::ApiGatewayV2::Integration
  Properties:
    ApiId: {Ref: Api}
    IntegrationType: AWS_PROXY
    IntegrationUri: {"Fn::GetAtt": [Function, Arn]}
    PayloadFormatVersion: "2.0"
Route:
  Type: AWS::ApiGatewayV2::Route
  Properties:
    ApiId: {Ref: Api}
    RouteKey: GET /a
    Target: {"Fn::Join": ["", [integrations/, {Ref: Integration}]]}
Stage:
  Type: AWS::ApiGatewayV2::Stage
  Properties:
    ApiId: {Ref: Api}
    StageName: $default
    AutoDeploy: true
    DefaultRouteSettings: {ThrottlingRateLimit: 1, ThrottlingBurstLimit: 1}
""".replace("REGION", aws.LOCAL_REGION)
)
METRIC_MATH = yaml.safe_load("""
Type: AWS::CloudWatch::Alarm
Properties:
  Metrics:
    - {Id: twice, Expression: one + one}
    - Id: one
      MetricStat: {Metric: {Namespace: Gap, MetricName: Done}, Period: 60, Stat: Sum}
      ReturnData: false
  ComparisonOperator: GreaterThanThreshold
  EvaluationPeriods: 1
  Threshold: 1
""")


@dataclass(frozen=True)
class Bare:
    """An engine without the app."""

    local: aws.LocalEndpoint

    @property
    def endpoint(self) -> str:
        return self.local.url

    def client(self, service: str) -> Any:
        return aws.client(service, self.local, None)

    def deploy(self, name: str, resources: Resources, **outputs: Any) -> str:
        """Create or update a stack; its status, or why CloudFormation refuses the template."""
        client = self.client("cloudformation")
        template = {
            "Resources": resources,
            "Outputs": {k: {"Value": v} for k, v in outputs.items()},
        }
        known = [each["StackName"] for each in client.describe_stacks()["Stacks"]]
        act = client.update_stack if name in known else client.create_stack
        try:
            act(StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"])
        except ClientError as error:
            return str(error)
        eventually(lambda: not self.status(name).endswith("_IN_PROGRESS"))
        return self.status(name)

    def status(self, name: str) -> str:
        found = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        return str(found[0]["StackStatus"])

    def physical(self, name: str) -> dict[str, str]:
        return gaps.physical_ids(self.client, name)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    home = Home(tmp_path_factory.mktemp("bare"))
    state = engines.start(home, lifetime_seconds=LIFETIME_HOURS * 3600, port=None)
    try:
        yield Bare(state.local_endpoint)
    finally:
        engines.stop(home, state)


@pytest.fixture(scope="module")
def ids(bare: Bare) -> dict[str, str]:
    """The physical ids of a stack whose properties the engine ignores in part."""
    assert bare.deploy("Gaps", RESOURCES) == "CREATE_COMPLETE"
    return bare.physical("Gaps")


# CloudFormation


def test_a_template_sets_no_time_to_live_and_neither_warms_nor_protects_a_table(
    bare: Bare, ids: Mapping[str, str]
) -> None:
    dynamodb, name = bare.client("dynamodb"), ids["Table"]
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "DISABLED"}
    table = dynamodb.describe_table(TableName=name)["Table"]
    assert table["WarmThroughput"]["WriteUnitsPerSecond"] == 0
    assert table["DeletionProtectionEnabled"] is False
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    insights = dynamodb.describe_contributor_insights(TableName=name)["ContributorInsightsStatus"]
    assert (recovery, insights) == ("DISABLED", "DISABLED")


def test_a_template_limits_no_function(bare: Bare, ids: Mapping[str, str]) -> None:
    lambda_, name = bare.client("lambda"), ids["Function"]
    assert "ReservedConcurrentExecutions" not in lambda_.get_function_concurrency(FunctionName=name)
    recursion = lambda_.get_function_recursion_config(FunctionName=name)["RecursiveLoop"]
    assert recursion == "Terminate"


def test_an_update_replaces_a_changed_table_by_an_empty_one(bare: Bare) -> None:
    table = RESOURCES["Table"]
    assert bare.deploy("Changing", {"Table": table}) == "CREATE_COMPLETE"
    before = bare.physical("Changing")["Table"]
    changed = {**table, "Properties": {**table["Properties"], "BillingMode": "PROVISIONED"}}
    assert bare.deploy("Changing", {"Table": changed}) == "UPDATE_COMPLETE"
    assert bare.physical("Changing")["Table"] != before
    assert before not in bare.client("dynamodb").list_tables()["TableNames"]


def test_a_stack_deletes_a_protected_table_and_a_protected_pool(bare: Bare) -> None:
    protected = {name: RESOURCES[name] for name in ("Protected", "Pool")}
    assert bare.deploy("Protected", protected) == "CREATE_COMPLETE"
    ids = bare.physical("Protected")
    bare.client("cloudformation").delete_stack(StackName="Protected")
    dynamodb, cognito = bare.client("dynamodb"), bare.client("cognito-idp")
    eventually(lambda: ids["Protected"] not in dynamodb.list_tables()["TableNames"])
    eventually(
        lambda: (
            ids["Pool"]
            not in [each["Id"] for each in cognito.list_user_pools(MaxResults=60)["UserPools"]]
        )
    )


def test_an_alarm_on_metric_math_fails(bare: Bare) -> None:
    assert bare.deploy("Math", {"Alarm": METRIC_MATH}) == "ROLLBACK_COMPLETE"


def test_chatbot_is_unknown(bare: Bare) -> None:
    channel = {"Type": "AWS::Chatbot::SlackChannelConfiguration", "Properties": {}}
    assert "Unrecognized resource types" in bare.deploy("Chatbot", {"Channel": channel})


def test_a_pool_does_not_name_its_issuer(bare: Bare) -> None:
    url = {"Fn::GetAtt": ["Pool", "ProviderURL"]}
    pool = {"Type": "AWS::Cognito::UserPool"}
    assert bare.deploy("Issuer", {"Pool": pool}, Url=url) == "ROLLBACK_COMPLETE"


# Requests and metrics


def test_a_stage_throttles_nothing_and_a_template_lets_no_browser_call(
    bare: Bare, ids: Mapping[str, str]
) -> None:
    url = f"{bare.endpoint}/_aws/execute-api/{ids['Api']}/a"
    answers = [http.request("GET", url).status for _ in range(5)]
    assert answers == [200] * 5, "of one a second"
    asked = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "GET"}
    assert http.request("OPTIONS", url, headers=asked).status == 403


def test_move_tasks_are_unknown_and_a_delay_of_more_than_fifteen_minutes_is_accepted(
    bare: Bare, ids: Mapping[str, str]
) -> None:
    sqs, url = bare.client("sqs"), ids["Queue"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    with pytest.raises(ClientError, match="InvalidAction"):
        sqs.list_message_move_tasks(SourceArn=arn["QueueArn"])
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=901)


def test_neither_queues_nor_emf_lines_make_metrics(bare: Bare, ids: Mapping[str, str]) -> None:
    bare.client("sqs").send_message(QueueUrl=ids["Queue"], MessageBody="x")
    bare.client("lambda").invoke(FunctionName=ids["Function"], Payload=b"{}")
    metrics = bare.client("cloudwatch")

    def namespaces() -> set[str]:
        return {each["Namespace"] for each in metrics.list_metrics()["Metrics"]}

    eventually(lambda: "AWS/Lambda" in namespaces())
    assert namespaces() == {"AWS/Lambda"}


def test_a_query_checks_its_condition_again_for_every_item() -> None:
    # What `guard.main` is for.
    script = """
from ministack.services import dynamodb
from unittest.mock import Mock
dynamodb._condition_syntax_error = check = Mock(wraps=dynamodb._condition_syntax_error)
item = {"p": {"S": "x"}}
for _ in range(100):
    dynamodb._evaluate_condition("p = :p", item, {":p": {"S": "x"}}, {}, "KeyConditionExpression")
print(check.call_count)
"""
    command = [sys.executable, "-P", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == 100


def test_a_query_of_a_megabyte_costs_half_a_unit(bare: Bare) -> None:
    dynamodb = bare.client("dynamodb")
    keys = [("p", "HASH"), ("s", "RANGE")]
    dynamodb.create_table(
        TableName="Pages",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
    )
    for number in range(12):
        text = {"S": "x" * 100_000}
        item = {"p": {"S": "p"}, "s": {"S": f"{number:02d}"}, "text": text}
        dynamodb.put_item(TableName="Pages", Item=item)
    page = dynamodb.query(
        TableName="Pages",
        KeyConditionExpression="p = :p",
        ExpressionAttributeValues={":p": {"S": "p"}},
        ReturnConsumedCapacity="TOTAL",
    )
    assert "LastEvaluatedKey" in page  # the page of 1 MB is right
    assert page["ConsumedCapacity"]["CapacityUnits"] == 0.5
