"""Rules for every table."""

import copy
from collections.abc import Callable

import pytest

from fanfold import names
from tests.infra.template import Template, of_type, output_id

TABLE = "AWS::DynamoDB::GlobalTable"


def tables(template: Template) -> dict[names.Table, Template]:
    return {
        table: template["Resources"][output_id(template, table.output)] for table in names.TABLES
    }


def only_replica(resource: Template) -> Template:
    (replica,) = resource["Properties"]["Replicas"]
    found: Template = replica
    return found


def test_the_stack_has_exactly_the_tables_of_the_product(template: Template) -> None:
    assert len(of_type(template, TABLE)) == len(names.TABLES) == len(tables(template))


def test_tables_have_the_keys_that_the_stores_use(template: Template) -> None:
    for table, resource in tables(template).items():
        keys = [key["AttributeName"] for key in resource["Properties"]["KeySchema"]]
        assert keys == [key for key in (table.partition_key, table.sort_key) if key]


def test_tables_are_billed_by_request(template: Template) -> None:
    for resource in tables(template).values():
        assert resource["Properties"]["BillingMode"] == "PAY_PER_REQUEST"


def test_items_expire_by_the_attribute_that_the_stores_write(template: Template) -> None:
    for table, resource in tables(template).items():
        expected = {"AttributeName": table.ttl, "Enabled": True} if table.ttl else None
        assert resource["Properties"].get("TimeToLiveSpecification") == expected


def test_every_table_can_be_restored_to_a_point_in_time(template: Template) -> None:
    for resource in tables(template).values():
        (replica,) = resource["Properties"]["Replicas"]
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True


def test_no_table_has_a_local_index(template: Template) -> None:
    for resource in tables(template).values():
        assert "LocalSecondaryIndexes" not in resource["Properties"]


def test_indexes_contain_keys_only(template: Template) -> None:
    for table, resource in tables(template).items():
        indexes = resource["Properties"].get("GlobalSecondaryIndexes", [])
        assert [index["IndexName"] for index in indexes] == [index.name for index in table.indexes]
        for index in indexes:
            assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_timelines_have_no_index_because_it_would_double_every_write(template: Template) -> None:
    assert "GlobalSecondaryIndexes" not in tables(template)[names.TIMELINES]["Properties"]


def test_prod_protects_every_table(prod: Template) -> None:
    for resource in tables(prod).values():
        (replica,) = resource["Properties"]["Replicas"]
        assert replica["DeletionProtectionEnabled"] is True


def test_dev_protects_no_table(dev: Template) -> None:
    for resource in tables(dev).values():
        (replica,) = resource["Properties"]["Replicas"]
        assert replica["DeletionProtectionEnabled"] is False


@pytest.mark.parametrize("table", names.TABLES, ids=lambda table: table.name)
def test_only_tables_that_take_bursts_have_a_maximum(
    dev: Template, prod: Template, table: names.Table
) -> None:
    wanted = tables(prod)[table]["Properties"]
    if table in (names.TIMELINES, names.FOLLOWERS):
        fuse = wanted["WriteOnDemandThroughputSettings"]
        assert fuse == {"MaxWriteRequestUnits": 30000}
    for properties in (
        tables(dev)[table]["Properties"],
        *([wanted] if table not in (names.TIMELINES, names.FOLLOWERS) else []),
    ):
        assert "WriteOnDemandThroughputSettings" not in properties


@pytest.mark.parametrize("table", names.TABLES, ids=lambda table: table.name)
def test_a_stage_may_record_throttled_keys_of_tables_whose_keys_run_hot(
    dev: Template, prod: Template, table: names.Table
) -> None:
    throttled = {"Enabled": True, "Mode": "THROTTLED_KEYS"}
    runs_hot = table in (names.TIMELINES, names.FOLLOWERS, names.PUBLISHERS)
    wanted = only_replica(tables(prod)[table]).get("ContributorInsightsSpecification")
    assert wanted == (throttled if runs_hot else None)
    assert "ContributorInsightsSpecification" not in only_replica(tables(dev)[table])


def test_contributor_insights_are_off_for_indexes(
    prod: Template,
) -> None:
    for resource in tables(prod).values():
        for index in only_replica(resource).get("GlobalSecondaryIndexes", []):
            assert "ContributorInsightsSpecification" not in index


def test_recording_throttled_keys_changes_nothing_else(
    dev: Template, synthesize: Callable[..., Template]
) -> None:
    recording = copy.deepcopy(synthesize(contributor_insights="true"))
    assert recording != dev
    for resource in tables(recording).values():
        only_replica(resource).pop("ContributorInsightsSpecification", None)
    assert recording == dev
