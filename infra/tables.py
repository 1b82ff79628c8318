"""A DynamoDB table, like all here: on demand, recoverable, granted action by action."""

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from fanfold import names

from .settings.stages import Stage

# The other mode records accessed keys too, and bills every request instead of throttled ones.
_THROTTLED_KEYS: Final = dynamodb.ContributorInsightsSpecification(
    enabled=True, mode=dynamodb.ContributorInsightsMode.THROTTLED_KEYS
)


class HouseTable(dynamodb.TableV2):
    """A table as `fanfold.names` describes it."""

    def __init__(
        self, scope: Construct, table: names.Table, *, stage: Stage, key: kms.IKey | None = None
    ) -> None:
        fuse = stage.max_write_request_units if table.takes_bursts else None
        super().__init__(
            scope,
            table.name,
            partition_key=_key(table.partition_key),
            sort_key=_key(table.sort_key) if table.sort_key else None,
            billing=dynamodb.Billing.on_demand(max_write_request_units=fuse),
            # Never a local index: it would keep DynamoDB from splitting a hot item collection.
            global_secondary_indexes=[_index(index) for index in table.indexes] or None,
            time_to_live_attribute=table.ttl,
            # Both images: no other place tells what an edit has changed, or what has expired.
            dynamo_stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
            if table.heard_by_others and stage.streams
            else None,
            contributor_insights_specification=_THROTTLED_KEYS
            if table.keys_run_hot and stage.contributor_insights
            else None,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=stage.point_in_time_recovery
            ),
            deletion_protection=stage.is_protected,
            removal_policy=removal_policy(stage),
        )
        # Without a key of the account, DynamoDB encrypts with one of its own.
        if key is not None:
            _encrypt(self, key)

    def allow(self, who: iam.IGrantable, *actions: str) -> None:
        """Grant these actions on the table, but not on its indexes."""
        _grant(who, actions, self.table_arn)

    def allow_ids(self, who: iam.IGrantable, *actions: str) -> None:
        """Grant these actions on the rows whose partition key is an id: it has no `#`."""
        ids = {"ForAllValues:StringNotLike": {"dynamodb:LeadingKeys": ["*#*"]}}
        _grant(who, actions, self.table_arn, conditions=ids)

    def allow_rows(self, who: iam.IGrantable, keys: tuple[str, ...], *actions: str) -> None:
        """Grant these actions on the rows with these partition keys; `*` stands for any text."""
        leading = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [*keys]}}
        _grant(who, actions, self.table_arn, conditions=leading)

    def allow_index(self, who: iam.IGrantable, index: names.Index, *actions: str) -> None:
        _grant(who, actions, f"{self.table_arn}/index/{index.name}")


def removal_policy(stage: Stage) -> RemovalPolicy:
    """What CloudFormation does with a resource that holds data when it leaves the stack.

    Kept data stays, except what a failed deploy has created and takes back.
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if stage.keep_data else RemovalPolicy.DESTROY


def _encrypt(table: dynamodb.TableV2, key: kms.IKey) -> None:
    # `TableEncryptionV2` would require the stack's region, though the table has no other replica.
    resource = table.node.default_child
    assert isinstance(resource, dynamodb.CfnGlobalTable)
    resource.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
    resource.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": key.key_arn})


def _grant(who: iam.IGrantable, actions: tuple[str, ...], arn: str, **conditions: Any) -> None:
    # `table.grants.actions` would add every index of the table by a wildcard.
    grant(who, [f"dynamodb:{action}" for action in actions], arn, **conditions)


def grant(
    who: iam.IGrantable,
    actions: list[str],
    arn: str,
    *,
    conditions: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Grant exactly these actions on one resource."""
    iam.Grant.add_to_principal(
        grantee=who, actions=actions, resource_arns=[arn], conditions=conditions
    ).assert_success()


def _index(index: names.Index) -> dynamodb.GlobalSecondaryIndexPropsV2:
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=index.name,
        partition_key=_key(index.partition_key),
        sort_key=_key(index.sort_key) if index.sort_key else None,
        projection_type=dynamodb.ProjectionType.KEYS_ONLY,
    )


def _key(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
