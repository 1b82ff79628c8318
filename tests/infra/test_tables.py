"""Rules for every table."""

from fanfold import names
from tests.infra.template import Template, of_type, output_id

TABLE = "AWS::DynamoDB::GlobalTable"


def tables(template: Template) -> dict[names.Table, Template]:
    """The properties of each table."""
    found = of_type(template, TABLE)
    return {table: found[output_id(template, table.output)] for table in names.TABLES}


def replicas(template: Template) -> dict[names.Table, Template]:
    """What each table is in its only region."""
    return {table: each["Replicas"][0] for table, each in tables(template).items()}


def test_the_stack_has_exactly_the_tables_of_the_product_billed_by_request(
    template: Template,
) -> None:
    assert len(of_type(template, TABLE)) == len(names.TABLES)
    assert {each["BillingMode"] for each in tables(template).values()} == {"PAY_PER_REQUEST"}
    assert all(len(each["Replicas"]) == 1 for each in tables(template).values())


def test_tables_have_the_keys_the_expiry_and_the_indexes_that_the_stores_use(
    template: Template,
) -> None:
    for table, properties in tables(template).items():
        keys = [key["AttributeName"] for key in properties["KeySchema"]]
        assert keys == [key for key in (table.partition_key, table.sort_key) if key]
        expires = {"AttributeName": table.ttl, "Enabled": True} if table.ttl else None
        assert properties.get("TimeToLiveSpecification") == expires
        indexes = properties.get("GlobalSecondaryIndexes", [])
        assert [index["IndexName"] for index in indexes] == [index.name for index in table.indexes]
        assert all(index["Projection"] == {"ProjectionType": "KEYS_ONLY"} for index in indexes)
        # It would keep DynamoDB from splitting a hot item collection.
        assert "LocalSecondaryIndexes" not in properties


def test_timelines_have_no_index_because_it_would_double_every_write() -> None:
    assert names.TIMELINES.indexes == ()


def test_every_table_can_be_restored_to_a_point_in_time(template: Template) -> None:
    for replica in replicas(template).values():
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True


def test_prod_protects_every_table(dev: Template, prod: Template) -> None:
    for template, is_protected in ((prod, True), (dev, False)):
        for replica in replicas(template).values():
            assert replica["DeletionProtectionEnabled"] is is_protected


def test_only_tables_that_take_bursts_have_a_maximum_if_the_stage_has_one(
    dev: Template, prod: Template
) -> None:
    def maxima(template: Template) -> dict[names.Table, Template]:
        key = "WriteOnDemandThroughputSettings"
        return {table: each[key] for table, each in tables(template).items() if key in each}

    fuse = {"MaxWriteRequestUnits": 30_000}
    assert maxima(prod) == dict.fromkeys((names.TIMELINES, names.FOLLOWERS), fuse)
    assert maxima(dev) == {}


def test_a_stage_may_record_throttled_keys_of_tables_whose_keys_run_hot_and_of_no_index(
    chosen: Template,
) -> None:
    found = {
        table: each.get("ContributorInsightsSpecification")
        for table, each in replicas(chosen).items()
    }
    throttled = {"Enabled": True, "Mode": "THROTTLED_KEYS"}
    hot = (names.TIMELINES, names.FOLLOWERS, names.PUBLISHERS)
    assert found == {table: throttled if table in hot else None for table in names.TABLES}
    for properties in tables(chosen).values():
        assert "Contributor" not in str(properties.get("GlobalSecondaryIndexes"))
