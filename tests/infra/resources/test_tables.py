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


def test_timelines_have_no_index_because_it_would_double_every_write() -> None:
    assert names.TIMELINES.indexes == ()


def test_every_table_can_be_restored_to_a_point_in_time(template: Template) -> None:
    for replica in replicas(template).values():
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True


def test_prod_protects_every_table(dev: Template, prod: Template) -> None:
    for template, is_protected in ((prod, True), (dev, False)):
        for replica in replicas(template).values():
            assert replica["DeletionProtectionEnabled"] is is_protected
