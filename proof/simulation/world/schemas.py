"""The product's tables as the model's schemas."""

from fanfold import names
from proof.model.dynamodb.tables import IndexSchema, KeySchema, TableSchema


def schema_of(table: names.Table) -> TableSchema:
    """The schema of one of the product's tables."""
    return TableSchema(
        table.name,
        KeySchema(table.partition_key, table.sort_key),
        tuple(
            IndexSchema(index.name, KeySchema(index.partition_key, index.sort_key))
            for index in table.indexes
        ),
        table.ttl,
    )
