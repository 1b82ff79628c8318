"""The product's tables as the model's schemas."""

from aws_model.dynamodb.tables import IndexSchema, KeySchema, TableSchema
from fanfold import names


def schema_of(table: names.Table, name: str | None = None) -> TableSchema:
    """The schema of one of the product's tables, under its physical name."""
    return TableSchema(
        name or table.name,
        KeySchema(table.partition_key, table.sort_key),
        tuple(
            IndexSchema(index.name, KeySchema(index.partition_key, index.sort_key))
            for index in table.indexes
        ),
        table.ttl,
    )
