"""Which function may do what with tables and queues."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fanfold import names
from fanfold.channels.head import HEAD
from fanfold.follows.relation import BLOCKS, PRIVACY, REQUESTS
from fanfold.names import API, DELIVER, PLAN, RELATE, SWEEP, TIMELINE

# Rights on whole tables. No function may scan one, or delete anything but edges and items of lists.
TABLE_ACTIONS: Final[dict[names.Table, Mapping[names.Function, tuple[str, ...]]]] = {
    names.TIMELINES: {
        TIMELINE: ("Query",),
        PLAN: ("BatchWriteItem",),
        DELIVER: ("BatchWriteItem",),
        RELATE: ("BatchGetItem", "BatchWriteItem"),
    },
    names.FOLLOWERS: {
        API: ("Query", "GetItem", "PutItem", "DeleteItem"),
        PLAN: ("Query", "GetItem", "PutItem", "DeleteItem"),
        DELIVER: ("Query",),
        RELATE: ("GetItem", "PutItem", "DeleteItem"),
    },
    names.FOLLOWING: {
        API: ("GetItem", "UpdateItem", "Query"),
        PLAN: ("GetItem", "UpdateItem"),
        TIMELINE: ("GetItem", "BatchGetItem"),
        RELATE: ("GetItem", "UpdateItem", "ConditionCheckItem"),
    },
    names.PUBLISHERS: {
        API: ("GetItem", "UpdateItem"),
        PLAN: ("GetItem", "BatchGetItem", "UpdateItem"),
        DELIVER: ("GetItem", "BatchGetItem"),
        RELATE: ("GetItem", "UpdateItem", "ConditionCheckItem"),
    },
    names.POSTS: {
        API: ("GetItem", "PutItem", "UpdateItem"),
        TIMELINE: ("GetItem", "BatchGetItem"),
        PLAN: ("GetItem", "BatchGetItem", "PutItem", "UpdateItem"),
        DELIVER: ("BatchGetItem",),
    },
    names.FANOUTS: {
        API: ("GetItem", "PutItem", "UpdateItem"),
        PLAN: ("GetItem", "BatchGetItem", "PutItem", "UpdateItem"),
        DELIVER: ("GetItem", "BatchGetItem", "UpdateItem"),
        SWEEP: ("GetItem", "BatchGetItem", "UpdateItem"),
    },
    names.READERS: {
        API: ("GetItem", "UpdateItem"),
        TIMELINE: ("GetItem", "BatchGetItem"),
        PLAN: ("GetItem", "UpdateItem"),
        RELATE: ("GetItem", "UpdateItem"),
    },
}
# Rights only on publishers' rows. Rows with a `#` in their key, as no id has, are of the stage or
# say who approves its followers.
OF_IDS_ALONE: Final = {names.PUBLISHERS: ("UpdateItem",)}


class Rows(NamedTuple):
    """Rights on more rows of a table, by their partition keys; `*` stands for any text."""

    table: names.Table
    keys: tuple[str, ...]
    actions: Mapping[names.Function, tuple[str, ...]]


ROWS: Final = (
    # The head of the channels. A stage that gives no channels may still have some.
    Rows(
        names.PUBLISHERS,
        (HEAD,),
        {
            PLAN: ("UpdateItem",),
            TIMELINE: ("GetItem", "BatchGetItem"),
            SWEEP: ("GetItem", "UpdateItem"),
        },
    ),
    Rows(names.PUBLISHERS, (f"*{PRIVACY}",), {API: ("UpdateItem",), TIMELINE: ("GetItem",)}),
    Rows(
        names.FOLLOWING,
        (f"*{REQUESTS}", f"*{BLOCKS}"),
        {API: ("PutItem", "DeleteItem"), PLAN: ("PutItem", "DeleteItem")},
    ),
    Rows(names.FOLLOWING, (f"*{REQUESTS}",), {RELATE: ("Query", "DeleteItem")}),
)
# What DynamoDB and SQS require of users of an encrypted table or queue, spelt out: CDK grants some
# of it by wildcards.
KEY_ACTIONS: Final = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
# The same for reading only.
KEY_ACTIONS_OF_READERS: Final = ("kms:Decrypt", "kms:DescribeKey")
SENDERS: Final[Mapping[names.Queue, tuple[names.Function, ...]]] = {
    names.PUBLISH: (API, SWEEP),
    names.EXPRESS: (PLAN, DELIVER, SWEEP),
    names.BULK: (PLAN, DELIVER, SWEEP),
    names.RELATION: (API, PLAN, RELATE),
}
# A condition of a statement: the call comes from a function's code. What Lambda itself does with a
# function's role, such as polling a queue, has no such key:
# https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
FROM_CODE: Final = {"Null": {"lambda:SourceFunctionArn": "false"}}
